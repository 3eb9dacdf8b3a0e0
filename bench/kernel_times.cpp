// Time of every kernel in a training step of a model, one thread, each checked against the Eigen back end
// before it is timed; its rate, its scratch memory, and the memory of the whole step.
//
//   kernel_times [MODEL [CHOICE]]     cnn_net unless told; the chosen kernels, or one choice for all ops
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "bench/measured_models.hpp"
#include "models/base/rng.hpp"
#include "models/graph/op_attributes.hpp"
#include "models/graph/op_definition.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/kernels/measured.hpp"
#include "models/runtime/compile/compiled_variant.hpp"

namespace rookery {
namespace {

class Bench {
 public:
  Bench(const std::string& model, std::string only) : only_(std::move(only)) {
    const std::int64_t batch = measured_batch(model);
    Graph forward = measured_model(model);
    const std::string loss =
        forward.value(forward.outputs().at(0)).type.shape.rank() == 3 ? "mse" : "cross_entropy";
    add_loss(forward, loss);
    MeasuredKernels measured;
    CompileOptions options;
    options.training_sizes = {batch};
    options.kernels = choose_kernels(forward, batch, &measured);
    options.seed = kSeed;
    const Stage stage = std::move(cut(forward, std::vector<OpId>{0}).front());
    memory_ = memory_use(stage, options);
    variant_ = compile_variant(stage, Mode::kTraining, batch, options, false);
    choice_ = options.kernels;
    for (const TensorType& type : variant_.types) tensors_.emplace_back(type);
    fill_inputs();
  }

  void run() {
    double total = 0;
    for (OpId id = 0; id < std::ssize(graph().ops()); ++id) {
      const Op& op = graph().op(id);
      if (is_view(op)) {
        copy_view(op);
        continue;
      }
      const double microseconds = run_op(id);
      by_type_[op.type] += microseconds;
      total += microseconds;
    }
    for (const auto& [type, microseconds] : by_type_) {
      fmt::print("{:>10.2f} us  {:>3.0f} %  {}\n", microseconds, 100 * microseconds / total, type);
    }
    fmt::print("{:>10.2f} us  sum\n", total);
    const auto megabytes = [](std::int64_t bytes) { return static_cast<double>(bytes) * 1e-6; };
    fmt::print(
        "MB: parameters {:.1f}, gradients {:.1f}, optimizer {:.1f}, stash {:.1f}, workspace {:.1f}, program "
        "{:.1f}\n",
        megabytes(memory_.parameters), megabytes(memory_.gradients), megabytes(memory_.optimizer),
        megabytes(memory_.stash), megabytes(memory_.workspace), megabytes(memory_.program));
  }

 private:
  static constexpr std::uint64_t kSeed = 42;

  const Graph& graph() const { return variant_.training.graph; }
  Tensor& tensor(ValueId id) { return tensors_.at(static_cast<std::size_t>(id)); }

  void fill_inputs() {
    CounterRng random(rng_key(1, "samples"), 0);
    for (const ValueId id : graph().inputs()) {
      if (tensor(id).type().dtype == DType::kI64) {
        for (auto& label : tensor(id).as<std::int64_t>()) label = random.next_below(3);
      } else {
        for (float& sample : tensor(id).as<float>()) sample = random.next_float();
      }
    }
    for (auto& [name, value] : initial_state(graph(), kSeed)) {
      copy(value.view(), tensor(graph().at(name)).view());
    }
  }

  void copy_view(const Op& op) {
    const auto from = tensor(op.inputs[0]).view().bytes();
    std::ranges::copy(from, tensor(op.outputs[0]).view().bytes().begin());
  }

  // Microseconds of the kernel; leaves the outputs of the Eigen one.
  double run_op(OpId id) {
    const Op& op = graph().op(id);
    std::vector<TensorType> input_types;
    std::vector<TensorType> output_types;
    for (const ValueId input : op.inputs) input_types.push_back(type_of(input));
    for (const ValueId output : op.outputs) output_types.push_back(type_of(output));
    const KernelRequest request{.op = op, .inputs = input_types, .outputs = output_types, .seed = kSeed};
    const std::string backend = only_.empty() ? chosen_kernel(choice_, op) : only_;
    const auto kernel = make_kernel(backend, request);
    const auto reference = make_kernel("eigen", request);
    const bool pure = op.type != "BatchNormalization";  // which updates its statistics
    run_once(op, *kernel);
    std::vector<Tensor> results;
    for (const ValueId output : op.outputs)
      results.push_back(output == kNoValue ? Tensor() : tensor(output).clone());
    const double microseconds = best_time(op, *kernel);
    run_once(op, *reference);
    for (std::size_t i = 0; i < (pure ? results.size() : 1); ++i) {
      if (op.outputs[i] != kNoValue) check(op, results[i], tensor(op.outputs[i]));
    }
    const auto& flops = op_definition(op.type).flops;
    const double gflops =
        flops ? flops(op, plain(input_types), plain(output_types)) / microseconds * 1e-3 : 0;
    fmt::print("{:>10.2f} us  {:>4.0f} GFLOP/s  {:>5.1f} MB  {:<23} {}\n", microseconds, gflops,
               static_cast<double>(kernel->scratch_bytes()) * 1e-6, backend, op.name);
    return microseconds;
  }

  static std::vector<TensorType> plain(std::vector<TensorType> types) {
    for (TensorType& type : types) {
      if (type.shape.rank() == 5) type.shape = plain_shape(type.shape);
    }
    return types;
  }

  TensorType type_of(ValueId id) const {
    return id == kNoValue ? TensorType{} : variant_.types.at(static_cast<std::size_t>(id));
  }

  void run_once(const Op& op, Kernel& kernel) {
    std::vector<ConstTensorView> inputs;
    std::vector<TensorView> outputs;
    for (const ValueId id : op.inputs)
      inputs.push_back(id == kNoValue ? ConstTensorView{} : tensor(id).view());
    for (const ValueId id : op.outputs) outputs.push_back(id == kNoValue ? TensorView{} : tensor(id).view());
    AlignedBuffer scratch(kernel.scratch_bytes());
    kernel.run(inputs, outputs, scratch.data(), {});
  }

  double best_time(const Op& op, Kernel& kernel) {
    std::vector<ConstTensorView> inputs;
    std::vector<TensorView> outputs;
    for (const ValueId id : op.inputs)
      inputs.push_back(id == kNoValue ? ConstTensorView{} : tensor(id).view());
    for (const ValueId id : op.outputs) outputs.push_back(id == kNoValue ? TensorView{} : tensor(id).view());
    AlignedBuffer scratch(kernel.scratch_bytes());
    constexpr int kRounds = 20;
    constexpr double kLongEnough = 300;  // microseconds of a round
    double best = std::numeric_limits<double>::max();
    int repetitions = 1;
    for (int round = 0; round < kRounds; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < repetitions; ++i) kernel.run(inputs, outputs, scratch.data(), {});
      const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
      best = std::min(best, taken.count() / repetitions);
      repetitions = std::max(repetitions, static_cast<int>(kLongEnough / best));
    }
    return best;
  }

  static void check(const Op& op, const Tensor& actual, const Tensor& expected) {
    if (actual.type().dtype != DType::kF32) return;
    double scale = 1e-6;
    double worst = 0;
    for (std::size_t i = 0; i < expected.as<float>().size(); ++i) {
      const double value = expected.as<float>()[i];
      scale = std::max(scale, std::abs(value));
      worst = std::max(worst, std::abs(value - static_cast<double>(actual.as<float>()[i])));
    }
    if (!(worst <= 1e-4 * scale)) {
      throw BugError(fmt::format("{}: differs from the Eigen back end by {}", op.name, worst / scale));
    }
  }

  std::string only_;
  std::map<std::string, double> by_type_;
  KernelChoice choice_;
  CompiledVariant variant_;
  MemoryUse memory_;
  std::vector<Tensor> tensors_;
};

}  // namespace
}  // namespace rookery

int main(int argc, char** argv) {
  try {
    rookery::Bench(argc > 1 ? argv[1] : "cnn_net", argc > 2 ? argv[2] : "").run();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "kernel_times: {}\n", error.what());
    return 1;
  }
}
