// Time of every kernel in a training step of a model, each checked against the Eigen back end before it is
// timed; its rate, its scratch memory, and the memory of the whole step. With several threads also its time
// on one, whose result has to be the same bits, and from both the share of its work that ran on one thread
// (Amdahl's law).
//
//   kernel_times [--threads N] [--cold] [--bf16] [--model MODEL] [--choice CHOICE]
//
// cnn_net unless told; the chosen kernels, or one choice for all ops. --cold: the caches are swept before
// every run, as by all the other kernels of a step. --bf16: in mixed precision, whose results may differ by
// what rounding to bf16 does.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "bench/measured_models.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/process/program.hpp"
#include "models/base/process/team_waits.hpp"
#include "models/base/rng.hpp"
#include "models/graph/op_attributes.hpp"
#include "models/graph/op_definition.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/kernels/measured.hpp"
#include "models/kernels/precision.hpp"
#include "models/kernels/threads.hpp"
#include "models/runtime/compile/compiled_variants.hpp"

namespace rookery {
namespace {

class Bench {
 public:
  struct Options {
    std::string model, choice;
    int threads = 1;
    bool cold = false;
    bool bf16 = false;
  };

  explicit Bench(const Options& told) : told_(told) {
    const std::string& model = told.model;
    const std::int64_t batch = measured_batch(model);
    Graph forward = measured_model(model);
    add_loss(forward, measured_loss(model));
    MeasuredKernels measured;
    CompileOptions options;
    options.training_sizes = {batch};
    options.kernels = choose_kernels(forward, batch, &measured);
    if (told.bf16) options.kernels = in_bf16(forward, std::move(options.kernels));
    options.seed = kSeed;
    const Stage stage = std::move(cut(forward, std::vector<OpId>{0}).front());
    memory_ = memory_use(stage, options);
    variant_ = std::move(compile_variants(stage, options).training.front());
    choice_ = options.kernels;
    for (const TensorType& type : variant_.types) tensors_.emplace_back(type);
    fill_inputs();
  }

  void run() {
    Times total;
    for (OpId id = 0; id < std::ssize(graph().ops()); ++id) {
      const Op& op = graph().op(id);
      if (is_view(op)) {
        copy_view(op);
        continue;
      }
      const Times times = run_op(id);
      by_type_[op.type].add(times);
      total.add(times);
    }
    for (const auto& [type, times] : by_type_)
      fmt::print("{}  {:>3.0f} %  {}\n", text_of(times), 100 * times.shared / total.shared, type);
    fmt::print("{}  sum\n", text_of(total));
    const auto megabytes = [](std::int64_t bytes) { return static_cast<double>(bytes) * 1e-6; };
    fmt::print(
        "MB: parameters {:.1f}, gradients {:.1f}, optimizer {:.1f}, stash {:.1f}, workspace {:.1f}, program "
        "{:.1f}\n",
        megabytes(memory_.parameters), megabytes(memory_.gradients), megabytes(memory_.optimizer),
        megabytes(memory_.stash), megabytes(memory_.workspace), megabytes(memory_.program));
  }

 private:
  static constexpr std::uint64_t kSeed = 42;

  struct Times {
    double alone = 0, shared = 0;  // microseconds on one thread and on all
    int threads = 1;

    void add(const Times& other) {
      alone += other.alone;
      shared += other.shared;
      threads = other.threads;
    }
    double serial() const { return std::clamp((threads * shared / alone - 1) / (threads - 1), 0.0, 1.0); }
  };

  const Graph& graph() const { return variant_.training.graph; }
  Tensor& tensor(ValueId id) { return tensors_.at(id); }

  void fill_inputs() {
    CounterRng random(rng_key(1, "samples"), 0);
    for (const ValueId id : graph().inputs()) {
      if (tensor(id).type().dtype == DType::kI64) {
        for (auto& label : tensor(id).as<std::int64_t>()) label = random.next_below(2);
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

  // Leaves the outputs of the Eigen kernel.
  Times run_op(OpId id) {
    const Op& op = graph().op(id);
    std::vector<TensorType> input_types;
    std::vector<TensorType> output_types;
    for (const ValueId input : op.inputs) input_types.push_back(type_of(input));
    for (const ValueId output : op.outputs) output_types.push_back(type_of(output));
    const KernelRequest request{.op = op, .inputs = input_types, .outputs = output_types, .seed = kSeed};
    const std::string backend = told_.choice.empty() ? chosen_kernel(choice_, op) : told_.choice;
    const auto kernel = make_kernel(backend, request);
    const auto reference = make_kernel("eigen", request);
    const bool pure = op.type != "BatchNormalization";  // which updates its statistics
    const std::vector<Tensor> results = results_of(op, *kernel);
    Times times{.alone = best_time(op, *kernel), .shared = 0, .threads = told_.threads};
    times.shared = times.alone;
    if (told_.threads > 1) {
      set_kernel_threads(told_.threads);
      const auto sharing = make_kernel(backend, request);
      if (pure) check_bits(op, results, results_of(op, *sharing));
      times.shared = best_time(op, *sharing);
      set_kernel_threads(1);
    }
    run_once(op, *reference);
    for (std::size_t i = 0; i < (pure ? results.size() : 1); ++i) {
      if (op.outputs[i] != kNoValue)
        check(op, results[i], tensor(op.outputs[i]), asks_for(backend, "bf16") ? 3e-2 : 1e-4);
    }
    const auto& flops = op_definition(op.type).flops;
    const double gflops =
        flops ? flops(op, plain(input_types), plain(output_types)) / times.shared * 1e-3 : 0;
    fmt::print("{}  {:>4.0f} GFLOP/s  {:>5.1f} MB  {:<23} {}\n", text_of(times), gflops,
               static_cast<double>(kernel->scratch_bytes()) * 1e-6, backend, op.name);
    return times;
  }

  static std::string text_of(const Times& times) {
    if (times.threads == 1) return fmt::format("{:>10.2f} us", times.alone);
    return fmt::format("{:>10.2f} us  {:>10.2f} us  {:>3.0f} % on one", times.alone, times.shared,
                       100 * times.serial());
  }

  std::vector<Tensor> results_of(const Op& op, Kernel& kernel) {
    run_once(op, kernel);
    std::vector<Tensor> results;
    for (const ValueId output : op.outputs)
      results.push_back(output == kNoValue ? Tensor() : tensor(output).clone());
    return results;
  }

  static void check_bits(const Op& op, const std::vector<Tensor>& alone, const std::vector<Tensor>& shared) {
    for (std::size_t i = 0; i < alone.size(); ++i) {
      if (op.outputs[i] != kNoValue && !std::ranges::equal(alone[i].view().bytes(), shared[i].view().bytes()))
        throw BugError(fmt::format("{}: other bits on several threads", op.name));
    }
  }

  static std::vector<TensorType> plain(std::vector<TensorType> types) {
    for (TensorType& type : types) {
      if (type.shape.rank() == 5) type.shape = plain_shape(type.shape);
    }
    return types;
  }

  TensorType type_of(ValueId id) const { return id == kNoValue ? TensorType{} : variant_.types.at(id); }

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
      if (told_.cold) sweep_caches();
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < repetitions; ++i) kernel.run(inputs, outputs, scratch.data(), {});
      const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
      best = std::min(best, taken.count() / repetitions);
      if (!told_.cold) repetitions = std::max(repetitions, static_cast<int>(kLongEnough / best));
    }
    return best;
  }

  void sweep_caches() {
    for (float& value : sweep_) value += 1;
  }

  static void check(const Op& op, const Tensor& actual, const Tensor& expected, double tolerance) {
    if (actual.type().dtype != DType::kF32) return;
    double scale = 1e-6;
    double worst = 0;
    for (std::size_t i = 0; i < expected.as<float>().size(); ++i) {
      const double value = expected.as<float>()[i];
      scale = std::max(scale, std::abs(value));
      worst = std::max(worst, std::abs(value - static_cast<double>(actual.as<float>()[i])));
    }
    if (!(worst <= tolerance * scale)) {
      throw BugError(fmt::format("{}: differs from the Eigen back end by {}", op.name, worst / scale));
    }
  }

  const Options told_;
  std::vector<float> sweep_ = std::vector<float>(told_.cold ? 24 << 20 : 0);  // larger than caches are
  std::map<std::string, Times> by_type_;
  KernelChoice choice_;
  CompiledVariant variant_;
  MemoryUse memory_;
  std::vector<Tensor> tensors_;
};

}  // namespace
}  // namespace rookery

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  rookery::let_teams_sleep(argv);
  const rookery::ProgramInfo info{.name = "kernel_times",
                                  .summary = "The time of every kernel of a training step.",
                                  .example = "  kernel_times --threads 2 --model resnet18\n"};
  rookery::ProgramOptions options;
  rookery::Bench::Options told;
  options.add_options()("threads", po::value<int>(&told.threads)->default_value(1), "of kernels")(
      "cold", po::bool_switch(&told.cold), "with caches that hold something else")(
      "bf16", po::bool_switch(&told.bf16), "in mixed precision")(
      "model", po::value<std::string>(&told.model)->default_value("cnn_net"), "a model of the benchmarks")(
      "choice", po::value<std::string>(&told.choice), "for all ops, as \"eigen\"");
  return rookery::run_program(info, options, argc, argv, [&](const rookery::ProgramArguments&) {
    rookery::Bench(told).run();
    return rookery::kDone;
  });
}
