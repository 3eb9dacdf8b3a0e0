// What a step of an LSTM does after its products, and before those of its gradient.
#include "models/kernels/simd/loops/bounded.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

inline Floats load_or_zero(const float* from, Index at) {
  return from == nullptr ? Floats{} : load(from + at);
}

// visit(element of a state, element of the gate at place 0, unit).
template <typename Visit>
inline void for_units(const LstmStep& s, Visit visit) {
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

}  // namespace rookery::simd::ROOKERY_ISA
