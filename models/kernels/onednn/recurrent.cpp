// LSTM and its gradients: products of all steps at once by oneDNN, the steps by our loops.
#include "models/graph/recurrent.hpp"

#include <algorithm>

#include "models/kernels/onednn/families.hpp"
#include "models/kernels/onednn/program.hpp"
#include "models/kernels/simd/recurrent.hpp"
#include "models/kernels/threads.hpp"

namespace rookery::onednn {

namespace {

using dnnl::memory;

memory::desc matrix(std::int64_t rows, std::int64_t columns, bool turned = false) {
  using Tag = memory::format_tag;
  return {{rows, columns}, memory::data_type::f32, turned ? Tag::ba : Tag::ab};
}

// Appends to = a b. False where oneDNN has only reference loops for it.
bool add_product(Program& program, const memory& a, const memory& b, const memory& to) {
  const dnnl::matmul::desc description(a.get_desc(), b.get_desc(), to.get_desc());
  const dnnl::matmul::primitive_desc descriptor(description, user_scratchpad(), cpu_engine());
  if (!is_optimized(descriptor.impl_info_str())) return false;
  program.add(descriptor, dnnl::matmul(descriptor),
              {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, to}});
  return true;
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

}  // namespace

std::unique_ptr<Kernel> make_lstm(const KernelRequest& request) {
  const RecurrentSizes s =
      recurrent_sizes(request.op, request.inputs[kRecurrentX].shape, request.inputs[kRecurrentW].shape,
                      request.inputs[kRecurrentR].shape);
  if (!simd::LstmSteps::serve(s)) return nullptr;
  auto program = std::make_unique<Program>();
  const std::int64_t rows = s.steps * s.batch;
  const bool trains = is_present(request.op.outputs, 3);
  const Program::Room gates = trains ? Program::Room{program->output(3, matrix(rows, s.rows())), 0}
                                     : program->room(matrix(rows, s.rows()));
  if (!add_product(*program, program->input(kRecurrentX, matrix(rows, s.input)),
                   program->input(kRecurrentW, matrix(s.input, s.rows(), true)), gates.memory))
    return nullptr;
  const simd::LstmSteps steps(request.op, s);
  const std::size_t scratch = program->room(matrix(1, steps.forward_floats())).place;
  program->finally([steps, scratch, place = gates.place](const Arguments& args) {
    const auto room = [&](std::size_t at) { return reinterpret_cast<float*>(args.scratch + at); };
    steps.run({.r = args.in(kRecurrentR),
               .input_bias = args.in(kRecurrentInputBias),
               .state_bias = args.in(kRecurrentStateBias),
               .h = args.in(kRecurrentH),
               .c = args.in(kRecurrentC),
               .gates = args.out(3) != nullptr ? args.out(3) : room(place),
               .cells = args.out(4),
               .y = args.out(0),
               .last_h = args.out(1),
               .last_c = args.out(2)},
              room(scratch));
  });
  return program;
}

std::unique_ptr<Kernel> make_lstm_grad_gates(const KernelRequest& request) {
  const Shape& r = request.inputs[3].shape;
  const Shape& states = request.inputs[4].shape;
  const RecurrentSizes s{.steps = states[0], .batch = states[1], .input = 0, .hidden = r[1], .gates = 4};
  if (!simd::LstmSteps::serve(s)) return nullptr;
  const simd::LstmSteps steps(request.op, s);
  return lambda_kernel(
      [steps](const Arguments& args) {
        apply_threads();
        steps.run_backward({.dy = args.in(0),
                            .last_dh = args.in(1),
                            .last_dc = args.in(2),
                            .r = args.in(3),
                            .c = args.in(6),
                            .gates = args.in(7),
                            .cells = args.in(8),
                            .dgates = args.out(0),
                            .dh = args.out(1),
                            .dc = args.out(2)},
                           args.floats());
      },
      static_cast<std::size_t>(steps.backward_floats()) * sizeof(float));
}

// dW = dgates^T X; dR = dgates^T H, where H are the states before: those at all steps but the last, beside
// the gates at all steps but the first, and the initial one.
std::unique_ptr<Kernel> make_lstm_grad_weights(const KernelRequest& request) {
  const Shape& x = request.inputs[1].shape;
  const RecurrentSizes s{
      .steps = x[0], .batch = x[1], .input = x[2], .hidden = request.inputs[2].shape[2], .gates = 4};
  if (!simd::LstmSteps::serve(s) || s.steps == 1) return nullptr;
  auto program = std::make_unique<Program>();
  const bool reverse = is_reverse(request.op);
  const std::int64_t rows = s.steps * s.batch;
  if (is_present(request.op.outputs, 0) &&
      !add_product(*program, program->input(0, matrix(s.rows(), rows, true)),
                   program->input(1, matrix(rows, s.input)), program->output(0, matrix(s.rows(), s.input))))
    return nullptr;
  const std::int64_t later = rows - s.batch;
  const auto bytes = [](std::int64_t floats) { return static_cast<std::size_t>(floats) * sizeof(float); };
  const auto gates =
      program->input(0, matrix(s.rows(), later, true), bytes(reverse ? 0 : s.batch * s.rows()));
  const auto states = program->input(2, matrix(later, s.hidden), bytes(reverse ? s.states() : 0));
  if (is_present(request.op.outputs, 1) &&
      !add_product(*program, gates, states, program->output(1, matrix(s.rows(), s.hidden))))
    return nullptr;
  const std::int64_t first = (reverse ? rows - s.batch : 0) * s.rows();
  const std::size_t scratch = program->room(matrix(kRowGroups, s.rows())).place;
  program->finally([s, rows, first, scratch](const Arguments& args) {
    const simd::Loops& loops = simd::loops();
    if (args.in(3) != nullptr && args.out(1) != nullptr) {
      loops.multiply({.m = s.rows(),
                      .n = s.hidden,
                      .k = s.batch,
                      .a = args.in(0) + first,
                      .a_row = 1,
                      .a_column = s.rows(),
                      .b = args.in(3),
                      .b_row = s.hidden,
                      .c = args.out(1),
                      .c_row = s.hidden,
                      .accumulates = true});
    }
    float* const bias = args.out(2) != nullptr ? args.out(2) : args.out(3);
    if (bias != nullptr)
      sum_columns(rows, s.rows(), args.in(0), reinterpret_cast<float*>(args.scratch + scratch), bias);
    if (bias != nullptr && args.out(3) != nullptr && bias != args.out(3))
      std::copy_n(bias, s.rows(), args.out(3));
  });
  return program;
}

}  // namespace rookery::onednn
