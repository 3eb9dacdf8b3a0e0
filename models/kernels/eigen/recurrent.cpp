// LSTM, GRU, RNN in one direction, and their gradients (models/graph/ops/recurrent_ops.cpp): the steps one
// after the other.
#include "models/graph/ops/recurrent.hpp"

#include <algorithm>
#include <cmath>

#include "models/kernels/backend.hpp"
#include "models/kernels/eigen/product.hpp"

namespace rookery::eigen {
namespace {

float sigmoid(float x) {
  return 1 / (1 + std::exp(-x));
}

// Sizes, the places of gates and the order of steps; the same for an op and its gradients.
struct Layer {
  RecurrentSizes s;
  bool reverse, resets_after, rectifies;
  std::int64_t i, o, f, c;  // of LSTM
  std::int64_t z, r, h;     // of GRU

  Layer(const Op& op, const RecurrentSizes& sizes)
      : s(sizes),
        reverse(is_reverse(op)),
        resets_after(op.integer("linear_before_reset", 0) != 0),
        rectifies(op.text("function", "Tanh") == "Relu"),
        i(gate_position(op, 'i') * s.hidden),
        o(gate_position(op, 'o') * s.hidden),
        f(gate_position(op, 'f') * s.hidden),
        c(gate_position(op, 'c') * s.hidden),
        z(gate_position(op, 'z') * s.hidden),
        r(gate_position(op, 'r') * s.hidden),
        h(gate_position(op, 'h') * s.hidden) {}

  // The time at a step of the recurrence.
  std::int64_t time(std::int64_t step) const { return reverse ? s.steps - 1 - step : step; }
  // The state before a step, or nullptr where it is zero.
  const float* before(std::int64_t step, const float* states, const float* initial) const {
    return step == 0 ? initial : states + time(step - 1) * s.states();
  }
  // visit(element of a state, first element of its row of gates plus its column).
  template <typename Visit>
  void for_states(Visit visit) const {
    for (std::int64_t row = 0; row < s.batch; ++row) {
      for (std::int64_t unit = 0; unit < s.hidden; ++unit)
        visit(row * s.hidden + unit, row * s.rows() + unit);
    }
  }
};

Layer layer_of(const KernelRequest& request) {
  return {request.op, recurrent_sizes(request.op, request.inputs[kRecurrentX].shape,
                                      request.inputs[kRecurrentW].shape, request.inputs[kRecurrentR].shape)};
}

// The layer of a gradient op that has R and Y as its inputs from `at_r` on.
Layer layer_of_gradient(const KernelRequest& request, std::size_t at_r) {
  const Shape& r = request.inputs[at_r].shape;
  const Shape& states = request.inputs[at_r + 1].shape;
  return {request.op,
          {.steps = states[0],
           .batch = states[1],
           .input = 0,
           .hidden = r[1],
           .gates = recurrent_gates(request.op)}};
}

// Rows that begin with a bias, which may be absent.
void start_rows(const float* bias, std::int64_t rows, std::int64_t columns, float* to) {
  for (std::int64_t i = 0; i < rows * columns; ++i) to[i] = bias == nullptr ? 0 : bias[i % columns];
}

// X W^T + bias of all steps.
void project(const Layer& layer, const Arguments& args, float* gates) {
  const RecurrentSizes& s = layer.s;
  const std::int64_t rows = s.steps * s.batch;
  start_rows(args.in(kRecurrentInputBias), rows, s.rows(), gates);
  multiply(dense(args.in(kRecurrentX), rows, s.input), dense(args.in(kRecurrentW), s.rows(), s.input, true),
           1, true, gates);
}

// h R^T + bias.
void recur(const Layer& layer, const Arguments& args, const float* h, float* products) {
  const RecurrentSizes& s = layer.s;
  start_rows(args.in(kRecurrentStateBias), s.batch, s.rows(), products);
  if (h == nullptr) return;
  multiply(dense(h, s.batch, s.hidden), dense(args.in(kRecurrentR), s.rows(), s.hidden, true), 1, true,
           products);
}

// A result that may be absent.
void deliver(const float* from, float* to, std::int64_t count) {
  if (to == nullptr) return;
  if (from == nullptr) {
    std::fill_n(to, count, 0.0F);
  } else {
    std::copy_n(from, count, to);
  }
}

// Scratch: products of a step, and in inference the gates of all steps and the cells of one.
std::unique_ptr<Kernel> make_lstm(const KernelRequest& request) {
  const Layer layer = layer_of(request);
  const RecurrentSizes s = layer.s;
  const std::int64_t step_rows = s.batch * s.rows();
  return lambda_kernel(
      [layer, s, step_rows](const Arguments& args) {
        float* const products = args.floats();
        float* const cell = products + step_rows;
        float* const gates = args.out(3) != nullptr ? args.out(3) : cell + s.states();
        float* const y = args.out(0);
        project(layer, args, gates);
        const float* c_before = args.in(kRecurrentC);
        for (std::int64_t step = 0; step < s.steps; ++step) {
          const std::int64_t time = layer.time(step);
          recur(layer, args, layer.before(step, y, args.in(kRecurrentH)), products);
          float* const of_step = gates + time * step_rows;
          float* const c = args.out(4) != nullptr ? args.out(4) + time * s.states() : cell;
          layer.for_states([&](std::int64_t state, std::int64_t at) {
            const auto sum = [&](std::int64_t gate) { return of_step[at + gate] + products[at + gate]; };
            const float i = of_step[at + layer.i] = sigmoid(sum(layer.i));
            const float f = of_step[at + layer.f] = sigmoid(sum(layer.f));
            const float g = of_step[at + layer.c] = std::tanh(sum(layer.c));
            const float o = of_step[at + layer.o] = sigmoid(sum(layer.o));
            c[state] = f * (c_before == nullptr ? 0 : c_before[state]) + i * g;
            y[time * s.states() + state] = o * std::tanh(c[state]);
          });
          c_before = c;
        }
        deliver(y + layer.time(s.steps - 1) * s.states(), args.out(1), s.states());
        deliver(c_before, args.out(2), s.states());
      },
      float_bytes(step_rows + s.states() + s.steps * step_rows));
}

// Scratch as of an LSTM, where the cells' place is the candidates', and a product with candidates.
std::unique_ptr<Kernel> make_gru(const KernelRequest& request) {
  const Layer layer = layer_of(request);
  const RecurrentSizes s = layer.s;
  const std::int64_t step_rows = s.batch * s.rows();
  return lambda_kernel(
      [layer, s, step_rows](const Arguments& args) {
        float* const products = args.floats();
        float* const one = products + step_rows;
        float* const reset = one + s.states();
        float* const gates = args.out(2) != nullptr ? args.out(2) : reset + s.states();
        float* const y = args.out(0);
        project(layer, args, gates);
        for (std::int64_t step = 0; step < s.steps; ++step) {
          const std::int64_t time = layer.time(step);
          const float* const before = layer.before(step, y, args.in(kRecurrentH));
          const auto h = [&](std::int64_t state) { return before == nullptr ? 0 : before[state]; };
          recur(layer, args, before, products);
          float* const of_step = gates + time * step_rows;
          float* const candidates = args.out(3) != nullptr ? args.out(3) + time * s.states() : one;
          layer.for_states([&](std::int64_t state, std::int64_t at) {
            for (const std::int64_t gate : {layer.z, layer.r})
              of_step[at + gate] = sigmoid(of_step[at + gate] + products[at + gate]);
            candidates[state] =
                layer.resets_after ? products[at + layer.h] : of_step[at + layer.r] * h(state);
          });
          if (!layer.resets_after) {
            const float* const bias = args.in(kRecurrentStateBias);
            start_rows(bias == nullptr ? bias : bias + layer.h, s.batch, s.hidden, reset);
            multiply(dense(candidates, s.batch, s.hidden),
                     dense(args.in(kRecurrentR) + layer.h * s.hidden, s.hidden, s.hidden, true), 1, true,
                     reset);
          }
          layer.for_states([&](std::int64_t state, std::int64_t at) {
            float& n = of_step[at + layer.h];
            n += layer.resets_after ? of_step[at + layer.r] * candidates[state] : reset[state];
            n = std::tanh(n);
            const float z = of_step[at + layer.z];
            y[time * s.states() + state] = (1 - z) * n + z * h(state);
          });
        }
        deliver(y + layer.time(s.steps - 1) * s.states(), args.out(1), s.states());
      },
      float_bytes(step_rows + 2 * s.states() + s.steps * step_rows));
}

std::unique_ptr<Kernel> make_rnn(const KernelRequest& request) {
  const Layer layer = layer_of(request);
  const RecurrentSizes s = layer.s;
  return lambda_kernel(
      [layer, s](const Arguments& args) {
        float* const y = args.out(0);
        project(layer, args, y);
        for (std::int64_t step = 0; step < s.steps; ++step) {
          recur(layer, args, layer.before(step, y, args.in(kRecurrentH)), args.floats());
          float* const of_step = y + layer.time(step) * s.states();
          for (std::int64_t state = 0; state < s.states(); ++state) {
            const float sum = of_step[state] + args.floats()[state];
            of_step[state] = !layer.rectifies ? std::tanh(sum) : sum <= 0 ? 0 : sum;
          }
        }
        deliver(y + layer.time(s.steps - 1) * s.states(), args.out(1), s.states());
      },
      float_bytes(s.states()));
}

// dh = what arrives for a step, at the last one also from the result `last`.
void receive(const Layer& layer, std::int64_t step, const float* dy, const float* last, float* dh) {
  const std::int64_t states = layer.s.states();
  if (step + 1 == layer.s.steps) deliver(last, dh, states);
  if (dy == nullptr) return;
  for (std::int64_t state = 0; state < states; ++state) dh[state] += dy[layer.time(step) * states + state];
}

// body(step) from the last step to the first, each with the gradient dh of its states; then the gradient of
// the initial states, where output number `initial` wants it.
template <typename Body>
void from_last_to_first(const Layer& layer, const Arguments& args, std::size_t initial, float* dh,
                        Body body) {
  for (std::int64_t step = layer.s.steps; step-- > 0;) {
    receive(layer, step, args.in(0), args.in(1), dh);
    body(step);
  }
  if (args.out(initial) != nullptr) deliver(dh, args.out(initial), layer.s.states());
}

// Scratch: dh and dc.
std::unique_ptr<Kernel> make_lstm_grad_gates(const KernelRequest& request) {
  const Layer layer = layer_of_gradient(request, 3);
  const RecurrentSizes s = layer.s;
  return lambda_kernel(
      [layer, s](const Arguments& args) {
        float* const dh = args.floats();
        float* const dc = dh + s.states();
        deliver(args.in(2), dc, s.states());
        from_last_to_first(layer, args, 1, dh, [&](std::int64_t step) {
          const std::int64_t time = layer.time(step);
          const float* const gates = args.in(7) + time * s.batch * s.rows();
          const float* const c = args.in(8) + time * s.states();
          const float* const c_before = layer.before(step, args.in(8), args.in(6));
          float* const dgates = args.out(0) + time * s.batch * s.rows();
          layer.for_states([&](std::int64_t state, std::int64_t at) {
            const float i = gates[at + layer.i];
            const float f = gates[at + layer.f];
            const float g = gates[at + layer.c];
            const float o = gates[at + layer.o];
            const float bent = std::tanh(c[state]);
            const float of_c = dc[state] + dh[state] * o * (1 - bent * bent);
            dgates[at + layer.i] = of_c * g * i * (1 - i);
            dgates[at + layer.f] = of_c * (c_before == nullptr ? 0 : c_before[state]) * f * (1 - f);
            dgates[at + layer.c] = of_c * i * (1 - g * g);
            dgates[at + layer.o] = dh[state] * bent * o * (1 - o);
            dc[state] = of_c * f;
          });
          multiply(dense(dgates, s.batch, s.rows()), dense(args.in(3), s.rows(), s.hidden), 1, false, dh);
        });
        if (args.out(2) != nullptr) deliver(dc, args.out(2), s.states());
      },
      float_bytes(2 * s.states()));
}

// Scratch: dh, what of it goes past the gates, and a product.
std::unique_ptr<Kernel> make_gru_grad_gates(const KernelRequest& request) {
  const Layer layer = layer_of_gradient(request, 2);
  const RecurrentSizes s = layer.s;
  return lambda_kernel(
      [layer, s](const Arguments& args) {
        float* const dh = args.floats();
        float* const past = dh + s.states();
        float* const dreset = past + s.states();
        const auto rows_of = [&](std::int64_t gate) {
          return dense(args.in(2) + gate * s.hidden, s.hidden, s.hidden);
        };
        from_last_to_first(layer, args, 2, dh, [&](std::int64_t step) {
          const std::int64_t time = layer.time(step);
          const float* const gates = args.in(5) + time * s.batch * s.rows();
          const float* const candidates = args.in(6) + time * s.states();
          const float* const before = layer.before(step, args.in(3), args.in(4));
          const auto h = [&](std::int64_t state) { return before == nullptr ? 0 : before[state]; };
          float* const dgates = args.out(0) + time * s.batch * s.rows();
          float* const dcandidates = args.out(1) + time * s.states();
          const auto gate = [&](std::int64_t at) { return Matrix{dgates + at, s.batch, s.hidden, s.rows()}; };
          layer.for_states([&](std::int64_t state, std::int64_t at) {
            const float z = gates[at + layer.z];
            const float n = gates[at + layer.h];
            dgates[at + layer.h] = dh[state] * (1 - z) * (1 - n * n);
            dgates[at + layer.z] = dh[state] * (h(state) - n) * z * (1 - z);
            past[state] = dh[state] * z;
            const float r = gates[at + layer.r];
            dcandidates[state] = layer.resets_after ? dgates[at + layer.h] * r : 0;
          });
          multiply(layer.resets_after ? dense(dcandidates, s.batch, s.hidden) : gate(layer.h),
                   rows_of(layer.h), 1, false, dreset);
          layer.for_states([&](std::int64_t state, std::int64_t at) {
            const float r = gates[at + layer.r];
            const float dr =
                layer.resets_after ? dgates[at + layer.h] * candidates[state] : dreset[state] * h(state);
            dgates[at + layer.r] = dr * r * (1 - r);
            past[state] += layer.resets_after ? dreset[state] : dreset[state] * r;
          });
          multiply(gate(layer.z), rows_of(layer.z), 1, false, dh);
          multiply(gate(layer.r), rows_of(layer.r), 1, true, dh);
          for (std::int64_t state = 0; state < s.states(); ++state) dh[state] += past[state];
        });
      },
      float_bytes(3 * s.states()));
}

// Scratch: dh.
std::unique_ptr<Kernel> make_rnn_grad_gates(const KernelRequest& request) {
  const Layer layer = layer_of_gradient(request, 2);
  const RecurrentSizes s = layer.s;
  return lambda_kernel(
      [layer, s](const Arguments& args) {
        float* const dh = args.floats();
        from_last_to_first(layer, args, 1, dh, [&](std::int64_t step) {
          const std::int64_t first = layer.time(step) * s.states();
          for (std::int64_t state = 0; state < s.states(); ++state) {
            const float y = args.in(3)[first + state];
            args.out(0)[first + state] = dh[state] * (layer.rectifies ? (y > 0 ? 1.0F : 0.0F) : 1 - y * y);
          }
          multiply(dense(args.out(0) + first, s.batch, s.hidden), dense(args.in(2), s.hidden, s.hidden), 1,
                   false, dh);
        });
      },
      float_bytes(s.states()));
}

// to = from^T H, where H are the states before the steps that the rows of `from` belong to: those at all
// steps but the last, beside the rows at all steps but the first, and the initial one.
void multiply_states(const Layer& layer, const Arguments& args, const float* from, std::int64_t columns,
                     float* to) {
  const RecurrentSizes& s = layer.s;
  const std::int64_t rows = (s.steps - 1) * s.batch;
  const float* const later = from + (layer.reverse ? 0 : s.batch * columns);
  const float* const states = args.in(2) + (layer.reverse ? s.states() : 0);
  multiply(dense(later, rows, columns, true), dense(states, rows, s.hidden), 1, false, to);
  if (args.in(3) == nullptr) return;
  const float* const first = from + layer.time(0) * s.batch * columns;
  multiply(dense(first, s.batch, columns, true), dense(args.in(3), s.batch, s.hidden), 1, true, to);
}

void sum_columns(std::int64_t rows, std::int64_t stride, std::int64_t columns, const float* from,
                 float* sums) {
  for (std::int64_t column = 0; column < columns; ++column) {
    double sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) sum += from[row * stride + column];
    sums[column] = static_cast<float>(sum);
  }
}

std::unique_ptr<Kernel> make_grad_weights(const KernelRequest& request) {
  const Shape& x = request.inputs[1].shape;
  const Layer layer(request.op, {.steps = x[0],
                                 .batch = x[1],
                                 .input = x[2],
                                 .hidden = request.inputs[2].shape[2],
                                 .gates = recurrent_gates(request.op)});
  const bool is_gru = request.op.type.starts_with("GRU");
  return lambda_kernel([layer, s = layer.s, is_gru](const Arguments& args) {
    const std::int64_t rows = s.steps * s.batch;
    const float* const dgates = args.in(0);
    if (args.out(0) != nullptr)
      multiply(dense(dgates, rows, s.rows(), true), dense(args.in(1), rows, s.input), 1, false, args.out(0));
    if (args.out(1) != nullptr) {
      multiply_states(layer, args, dgates, s.rows(), args.out(1));
      float* const of_candidates = args.out(1) + layer.h * s.hidden;
      if (is_gru && layer.resets_after) {
        multiply_states(layer, args, args.in(4), s.hidden, of_candidates);
      } else if (is_gru) {
        multiply({dgates + layer.h, s.hidden, rows, s.rows(), true}, dense(args.in(5), rows, s.hidden), 1,
                 false, of_candidates);
      }
    }
    for (const std::size_t bias : {2U, 3U}) {
      if (args.out(bias) != nullptr) sum_columns(rows, s.rows(), s.rows(), dgates, args.out(bias));
    }
    if (is_gru && layer.resets_after && args.out(3) != nullptr)
      sum_columns(rows, s.hidden, s.hidden, args.in(4), args.out(3) + layer.h);
  });
}

}  // namespace

void add_recurrent(KernelTable& table) {
  table.add("LSTM", {make_lstm});
  table.add("LSTMGradGates", {make_lstm_grad_gates});
  table.add("GRU", {make_gru});
  table.add("GRUGradGates", {make_gru_grad_gates});
  table.add("RNN", {make_rnn});
  table.add("RNNGradGates", {make_rnn_grad_gates});
  for (const char* type : {"LSTM", "GRU", "RNN"})
    table.add(std::string(type) + "GradWeights", {make_grad_weights});
}

}  // namespace rookery::eigen
