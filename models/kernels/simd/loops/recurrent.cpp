// The part of a step of a recurrent layer after its products, and before those of its gradient.
#include "models/kernels/simd/loops/bounded.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

inline Floats load_or_zero(const float* from, Index at) {
  return from == nullptr ? Floats{} : load(from + at);
}

// visit(element of a state, element of the gate at place 0, unit).
template <typename Step, typename Visit>
inline void for_units(const Step& s, Visit visit) {
  for (Index row = 0; row < s.rows; ++row) {
    for (Index unit = 0; unit < s.units; unit += kLanes)
      visit(row * s.state_row + unit, row * s.gate_row + unit, unit);
  }
}

}  // namespace

void lstm_step(const LstmStep& s, const float* bias, const float* c_before, float* gates, float* c,
               float* h) {
  for_units(s, [&](Index state, Index at, Index unit) {
    const auto sum = [&](Index gate) { return load(gates + at + gate) + load_or_zero(bias, unit + gate); };
    const Floats i = logistic(sum(s.i));
    const Floats f = logistic(sum(s.f));
    const Floats g = hyperbolic_tangent(sum(s.c));
    const Floats o = logistic(sum(s.o));
    const Floats cell = f * load_or_zero(c_before, state) + i * g;
    store(gates + at + s.i, i);
    store(gates + at + s.f, f);
    store(gates + at + s.c, g);
    store(gates + at + s.o, o);
    store(c + state, cell);
    store(h + state, o * hyperbolic_tangent(cell));
  });
}

void lstm_step_grad(const LstmStep& s, const float* gates, const float* c, const float* c_before,
                    const float* dy, const float* dh, float* dc, float* dgates) {
  for_units(s, [&](Index state, Index at, Index) {
    const Floats i = load(gates + at + s.i);
    const Floats f = load(gates + at + s.f);
    const Floats g = load(gates + at + s.c);
    const Floats o = load(gates + at + s.o);
    const Floats bent = hyperbolic_tangent(load(c + state));
    const Floats of_h = load(dh + state) + load_or_zero(dy, state);
    const Floats of_c = load(dc + state) + of_h * o * (1 - bent * bent);
    store(dgates + at + s.i, of_c * g * i * (1 - i));
    store(dgates + at + s.f, of_c * load_or_zero(c_before, state) * f * (1 - f));
    store(dgates + at + s.c, of_c * i * (1 - g * g));
    store(dgates + at + s.o, of_h * bent * o * (1 - o));
    store(dc + state, of_c * f);
  });
}

void gru_step(const GruStep& s, const float* bias, const float* h_before, const float* candidates,
              float* gates, float* h) {
  for_units(s, [&](Index state, Index at, Index unit) {
    const auto sum = [&](Index gate) { return load(gates + at + gate) + load_or_zero(bias, unit + gate); };
    const Floats z = logistic(sum(s.z));
    const Floats r = logistic(sum(s.r));
    const Floats n = hyperbolic_tangent(sum(s.h) + r * load(candidates + state));
    store(gates + at + s.z, z);
    store(gates + at + s.r, r);
    store(gates + at + s.h, n);
    store(h + state, (1 - z) * n + z * load_or_zero(h_before, state));
  });
}

void gru_step_grad(const GruStep& s, const float* gates, const float* candidates, const float* h_before,
                   const float* dy, float* dh, float* dgates, float* dcandidates) {
  for_units(s, [&](Index state, Index at, Index) {
    const Floats z = load(gates + at + s.z);
    const Floats r = load(gates + at + s.r);
    const Floats n = load(gates + at + s.h);
    const Floats of_h = load(dh + state) + load_or_zero(dy, state);
    const Floats of_n = of_h * (1 - z) * (1 - n * n);
    store(dgates + at + s.h, of_n);
    store(dgates + at + s.z, of_h * (load_or_zero(h_before, state) - n) * z * (1 - z));
    store(dgates + at + s.r, of_n * load(candidates + state) * r * (1 - r));
    store(dcandidates + state, of_n * r);
    store(dh + state, of_h * z);
  });
}

void rnn_step(const RnnStep& s, const float* bias, float* y) {
  for (Index row = 0; row < s.rows; ++row) {
    for (Index unit = 0; unit < s.units; unit += kLanes) {
      const Floats sum = load(y + row * s.row + unit) + load_or_zero(bias, unit);
      store(y + row * s.row + unit, s.rectifies ? rectified(sum) : hyperbolic_tangent(sum));
    }
  }
}

void rnn_step_grad(const RnnStep& s, const float* y, const float* dy, const float* dh, float* dgates) {
  for (Index row = 0; row < s.rows; ++row) {
    for (Index unit = 0; unit < s.units; unit += kLanes) {
      const Index at = row * s.row + unit;
      const Floats of_h = load(dh + at) + load_or_zero(dy, at);
      const Floats state = load(y + at);
      const Floats slope = s.rectifies ? (state > 0 ? Floats{} + 1 : Floats{}) : 1 - state * state;
      store(dgates + at, of_h * slope);
    }
  }
}

}  // namespace rookery::simd::ROOKERY_ISA
