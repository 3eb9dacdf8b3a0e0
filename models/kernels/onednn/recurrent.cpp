// LSTM, GRU, RNN and their gradients: products of all steps at once by oneDNN, the steps by our loops.
#include "models/graph/ops/recurrent.hpp"

#include <algorithm>
#include <vector>

#include "models/kernels/onednn/product.hpp"
#include "models/kernels/simd/recurrent.hpp"
#include "models/kernels/threads.hpp"

namespace rookery::onednn {
namespace {

using dnnl::memory;

memory::desc matrix(std::int64_t rows, std::int64_t columns, bool turned = false) {
  return {{rows, columns}, memory::data_type::f32, turned ? Tag::ba : Tag::ab};
}

// Sums of columns, in groups of rows that do not depend on the threads.
constexpr std::int64_t kRowGroups = 8;

void sum_columns(std::int64_t rows, std::int64_t columns, const float* x, float* of_groups, float* sums) {
  const simd::Loops& loops = simd::loops();
  in_parallel(kRowGroups, [&](std::int64_t group) {
    const std::int64_t first = group * rows / kRowGroups;
    const std::int64_t last = (group + 1) * rows / kRowGroups;
    loops.column_sums(last - first, columns, x + first * columns, of_groups + group * columns);
  });
  loops.column_sums(kRowGroups, columns, of_groups, sums);
}

std::unique_ptr<Kernel> make_recurrent(const KernelRequest& request) {
  const RecurrentSizes s =
      recurrent_sizes(request.op, request.inputs[kRecurrentX].shape, request.inputs[kRecurrentW].shape,
                      request.inputs[kRecurrentR].shape);
  const bool rounds = request.asks_for("bf16");
  if (!simd::RecurrentSteps::serve(request.op, s, rounds)) return nullptr;
  auto program = std::make_unique<Program>();
  const auto input = [&](std::size_t at, const memory::desc& desc) {
    return operand(*program, request, program->input(at, desc));
  };
  const std::int64_t rows = s.steps * s.batch;
  const memory::desc all = matrix(rows, s.rows());
  // The gates are kept in training; an RNN's is its state.
  const std::size_t at_kept = s.gates == 4 ? 3 : s.gates == 3 ? 2 : 0;
  const bool keeps = is_present(request.op.outputs, at_kept);
  const Program::Scratch gates =
      keeps ? Program::Scratch{program->output(at_kept, all), 0} : program->scratch(all);
  if (!add_product(*program, input(kRecurrentX, matrix(rows, s.input)),
                   input(kRecurrentW, matrix(s.input, s.rows(), true)), gates.memory))
    return nullptr;
  const simd::RecurrentSteps steps(request.op, s, rounds);
  const std::size_t scratch = program->scratch(matrix(1, steps.forward_floats())).place;
  const bool is_lstm = s.gates == 4;
  program->finally([steps, scratch, place = gates.place, at_kept, keeps, is_lstm,
                    is_rnn = s.gates == 1](const Arguments& args) {
    const auto room = [&](std::size_t at) { return reinterpret_cast<float*>(args.scratch + at); };
    steps.run({.r = args.in(kRecurrentR),
               .input_bias = args.in(kRecurrentInputBias),
               .state_bias = args.in(kRecurrentStateBias),
               .h = args.in(kRecurrentH),
               .c = is_lstm ? args.in(kRecurrentC) : nullptr,
               .gates = keeps ? args.out(at_kept) : room(place),
               .cells = is_rnn ? nullptr : args.out(at_kept + 1),
               .y = args.out(0),
               .last_h = args.out(1),
               .last_c = is_lstm ? args.out(2) : nullptr},
              room(scratch));
  });
  return program;
}

std::unique_ptr<Kernel> make_recurrent_grad_gates(const KernelRequest& request) {
  const bool is_lstm = request.op.type.starts_with("LSTM");
  const bool is_gru = request.op.type.starts_with("GRU");
  const std::size_t at_r = is_lstm ? 3 : 2;  // then come Y, the initial states, gates and cells or candidates
  const Shape& r = request.inputs[at_r].shape;
  const Shape& states = request.inputs[at_r + 1].shape;
  const RecurrentSizes s{.steps = states[0],
                         .batch = states[1],
                         .input = 0,
                         .hidden = r[1],
                         .gates = recurrent_gates(request.op)};
  const bool rounds = request.asks_for("bf16");
  if (!simd::RecurrentSteps::serve(request.op, s, rounds)) return nullptr;
  const simd::RecurrentSteps steps(request.op, s, rounds);
  return lambda_kernel(
      [steps, at_r, is_lstm, is_gru](const Arguments& args) {
        apply_threads();
        const std::size_t at_gates = is_lstm ? 7 : 5;
        const std::size_t at_dh = is_gru ? 2 : 1;
        steps.run_backward({.dy = args.in(0),
                            .last_dh = args.in(1),
                            .last_dc = is_lstm ? args.in(2) : nullptr,
                            .r = args.in(at_r),
                            .y = args.in(at_r + 1),
                            .h = args.in(at_r + 2),
                            .c = is_lstm ? args.in(6) : nullptr,
                            .gates = args.in(at_gates),
                            .cells = args.in(at_gates + 1),
                            .dgates = args.out(0),
                            .dcells = is_gru ? args.out(1) : nullptr,
                            .dh = args.out(at_dh),
                            .dc = is_lstm ? args.out(2) : nullptr},
                           args.floats());
      },
      static_cast<std::size_t>(steps.backward_floats()) * sizeof(float));
}

// Gradients of gates, `columns` of rows that are `stride` floats apart, which become `columns` rows of dR.
struct GatePart {
  std::size_t input;
  std::int64_t columns, stride;
  std::int64_t first_row;  // in dR
};

// The parts of the gates that R makes: those of a GRU's candidates have another gradient.
std::vector<GatePart> gate_parts(const Op& op, const RecurrentSizes& s) {
  if (!op.type.starts_with("GRU")) return {{0, s.rows(), s.rows(), 0}};
  const std::int64_t candidates = gate_position(op, 'h') * s.hidden;
  return {{0, candidates, s.rows(), 0}, {4, s.hidden, s.hidden, candidates}};
}

// dW = dgates^T X; dR = dgates^T H, where H are the states before: those at all steps but the last, beside
// the gates at all steps but the first, and the initial one.
std::unique_ptr<Kernel> make_recurrent_grad_weights(const KernelRequest& request) {
  const Shape& x = request.inputs[1].shape;
  const RecurrentSizes s{.steps = x[0],
                         .batch = x[1],
                         .input = x[2],
                         .hidden = request.inputs[2].shape[2],
                         .gates = recurrent_gates(request.op)};
  if (!simd::RecurrentSteps::serve(request.op, s, request.asks_for("bf16")) || s.steps == 1) return nullptr;
  auto program = std::make_unique<Program>();
  const auto input = [&](std::size_t at, const memory::desc& desc, std::size_t offset = 0) {
    return operand(*program, request, program->input(at, desc, offset));
  };
  const bool reverse = is_reverse(request.op);
  const std::int64_t rows = s.steps * s.batch;
  const memory gates = for_products(*program, input(0, matrix(s.rows(), rows, true)), 1, s.hidden);
  if (is_present(request.op.outputs, 0) && !add_product(*program, gates, input(1, matrix(rows, s.input)),
                                                        program->output(0, matrix(s.rows(), s.input))))
    return nullptr;
  const std::int64_t later = rows - s.batch;
  const std::vector<GatePart> parts = gate_parts(request.op, s);
  const bool is_wanted = is_present(request.op.outputs, 1);
  const memory states =
      is_wanted ? input(2, matrix(later, s.hidden), float_bytes(reverse ? s.states() : 0)) : memory();
  for (const GatePart& part : parts) {
    if (!is_wanted) break;
    const memory whole = part.input == 0 ? gates : input(part.input, matrix(part.columns, rows, true));
    const memory::desc desc = whole.get_desc();
    const std::int64_t stride = desc.data.format_desc.blocking.strides[1];
    const memory::desc turned({part.columns, later}, desc.data_type(), memory::dims{1, stride});
    const memory of_later =
        program->part_of(whole, turned, element_bytes(desc, reverse ? 0 : s.batch * stride));
    const auto to =
        program->output(1, matrix(part.columns, s.hidden), float_bytes(part.first_row * s.hidden));
    if (!add_product(*program, of_later, states, to)) return nullptr;
  }
  const std::size_t scratch = program->scratch(matrix(kRowGroups, s.rows())).place;
  program->finally([s, rows, parts, scratch, first = reverse ? rows - s.batch : 0](const Arguments& args) {
    for (const GatePart& part : parts) {
      if (args.in(3) == nullptr || args.out(1) == nullptr) break;
      simd::loops().multiply({.m = part.columns,
                              .n = s.hidden,
                              .k = s.batch,
                              .a = args.in(part.input) + first * part.stride,
                              .a_row = 1,
                              .a_column = part.stride,
                              .b = args.in(3),
                              .b_row = s.hidden,
                              .c = args.out(1) + part.first_row * s.hidden,
                              .c_row = s.hidden,
                              .accumulates = true});
    }
    auto* const of_groups = reinterpret_cast<float*>(args.scratch + scratch);
    float* const bias = args.out(2) != nullptr ? args.out(2) : args.out(3);
    if (bias != nullptr) sum_columns(rows, s.rows(), args.in(0), of_groups, bias);
    if (args.out(3) == nullptr) return;
    if (bias != args.out(3)) std::copy_n(bias, s.rows(), args.out(3));
    if (parts.size() > 1)
      sum_columns(rows, s.hidden, args.in(4), of_groups, args.out(3) + parts[1].first_row);
  });
  return program;
}

}  // namespace

void add_recurrent(KernelTable& table) {
  table.add("LSTM", {make_recurrent});
  table.add("LSTMGradGates", {make_recurrent_grad_gates});
  table.add("LSTMGradWeights", {make_recurrent_grad_weights});
  table.add("GRU", {make_recurrent});
  table.add("GRUGradGates", {make_recurrent_grad_gates});
  table.add("GRUGradWeights", {make_recurrent_grad_weights});
  table.add("RNN", {make_recurrent});
  table.add("RNNGradGates", {make_recurrent_grad_gates});
  table.add("RNNGradWeights", {make_recurrent_grad_weights});
}

}  // namespace rookery::onednn
