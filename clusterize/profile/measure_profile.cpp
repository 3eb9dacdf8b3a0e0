// measure_profile(): see op_profile.hpp.

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "clusterize/profile/op_profile.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/stage.hpp"
#include "models/kernels/measured.hpp"
#include "models/kernels/threads.hpp"
#include "models/runtime/profile/machine_speed.hpp"
#include "models/runtime/profile/step_profile.hpp"
#include "trainer/feed/batch_feed.hpp"
#include "trainer/trainer.hpp"

namespace rookery {
namespace {

class Profiler {
 public:
  explicit Profiler(const ProfileRequest& request)
      : request_(request),
        micro_batch_(micro_batch_sizes(request.settings, request.settings.batch_size).front()) {
    begins_ = cut_positions(request.graph);
    begins_.insert(begins_.begin(), 0);
    profile_.machine = measured_machine();
    profile_.model = request.settings.model;
    profile_.micro_batch = micro_batch_;
    profile_.kernels = request.kernels;
  }

  OpProfile run() {
    tell("the reading of samples");
    profile_.input_seconds = input_seconds();
    for (const int threads : request_.threads) {
      const KernelThreads of_kernels(threads);
      profile_.threads[threads] = Times(*this).run();
    }
    return std::move(profile_);
  }

 private:
  void tell(const std::string& what) const {
    if (request_.doing) request_.doing(what);
  }

  // The pieces [first, end) between cut positions, as one stage.
  Stage piece(std::size_t first, std::size_t end) const {
    std::vector<OpId> begins{0};
    if (first > 0) begins.push_back(begins_[first]);
    if (end < begins_.size()) begins.push_back(begins_[end]);
    return std::move(cut(request_.graph, begins)[first > 0 ? 1 : 0]);
  }

  CompileOptions options(const Stage& stage) const {
    CompileOptions options =
        compile_options(request_.settings, request_.data, stage.index, stage.count, request_.kernels);
    options.training_sizes = {micro_batch_};
    options.inference_sizes = {};
    options.slots = 1;
    options.recompute = false;
    options.updates_in_backward = false;  // they are measured apart
    return options;
  }

  // To get the samples of one micro-batch, in the order of training.
  double input_seconds() const {
    using Clock = std::chrono::steady_clock;
    constexpr double kLongEnough = 0.2;
    constexpr std::size_t kMostBatches = 1 << 16;
    const Stage whole = piece(0, begins_.size());
    BatchFeed feed(request_.dataset, request_.settings, request_.data, whole);
    const std::int64_t size = std::min(micro_batch_, request_.data.train_samples);
    const std::vector<TensorType> types = whole.graph.types(size);
    std::vector<std::pair<std::string, Tensor>> inputs;
    for (const StageInput& input : whole.inputs)
      inputs.emplace_back(input.value, types[whole.graph.at(input.value)]);
    // As many as are trained one after the other, which do not come to an end before the time is over.
    std::vector<SampleRange> batches(kMostBatches);
    for (std::size_t i = 0; i < batches.size(); ++i)
      batches[i] = {static_cast<std::int64_t>(i) * size % (request_.data.train_samples - size + 1), size};
    feed.start_epoch(0, batches);
    const auto begin = Clock::now();
    std::chrono::duration<double> taken{};
    std::int64_t samples = 0;
    for (std::size_t i = 0; i < batches.size() && taken.count() < kLongEnough; ++i) {
      feed.set_batch(batches[i], batches[i]);
      for (auto& [name, tensor] : inputs) feed.fill({.size = size}, name, tensor.view());
      samples += size;
      taken = Clock::now() - begin;
    }
    return taken.count() / static_cast<double>(samples) * static_cast<double>(micro_batch_);
  }

  // Measures with the threads that are set.
  class Times {
   public:
    explicit Times(const Profiler& of) : of_(of) {
      const Graph& graph = of.request_.graph;
      const std::vector<TensorType> types = graph.types(of.micro_batch_);
      for (const Op& op : graph.ops()) {
        times_.ops[op.name] = {.type = op.type, .output = types[op.outputs.at(0)].to_string()};
      }
    }

    ThreadTimes run() {
      measure(0, of_.begins_.size());
      if (parameter_bytes_ > 0) times_.update_seconds_per_byte = update_ / parameter_bytes_;
      times_.gflops = speed_.speed().gflops;
      return std::move(times_);
    }

   private:
    // As a whole where that fits the memory or cannot be cut, else by halves.
    void measure(std::size_t first, std::size_t end) {
      const Stage stage = of_.piece(first, end);
      const CompileOptions compile = of_.options(stage);
      constexpr std::int64_t kOfSpeed = 250'000'000;  // SpeedMeter
      if (end - first > 1 && memory_use(stage, compile).total() + kOfSpeed > of_.request_.memory_bytes) {
        const std::size_t middle = first + (end - first) / 2;
        measure(first, middle);
        measure(middle, end);
        return;
      }
      const std::vector<Op>& ops = stage.graph.ops();
      of_.tell(fmt::format("{} ops, from {} to {}, on {} thread{}", ops.size(), ops.front().name,
                           ops.back().name, kernel_threads(), kernel_threads() == 1 ? "" : "s"));
      constexpr std::chrono::milliseconds kRest{1};
      constexpr int kTurns = 4;
      StepProfiler profiler(stage, compile, kRest);
      // In turns with the machine's speed, which changes from second to second where others use it, too.
      for (int turn = 0; turn < kTurns; ++turn) {
        speed_.run(of_.request_.seconds / kTurns);
        profiler.run(of_.request_.seconds / kTurns);
      }
      add(stage, profiler.profile());
    }

    void add(const Stage& stage, const StepProfile& measured) {
      for (const OpTime& op : measured.ops) {
        OpSeconds& of = times_.ops.at(op.forward);
        double& seconds = op.phase == Phase::kForward          ? of.forward
                          : op.phase == Phase::kBackwardInputs ? of.backward_inputs
                                                               : of.backward_weights;
        seconds += op.seconds;
      }
      update_ += measured.update;
      for (const ValueId id : stage.owned_parameters())
        parameter_bytes_ += static_cast<double>(stage.graph.value(id).type.bytes());
    }

    const Profiler& of_;
    ThreadTimes times_;
    SpeedMeter speed_;
    double update_ = 0;
    double parameter_bytes_ = 0;
  };

  const ProfileRequest& request_;
  const std::int64_t micro_batch_;
  std::vector<OpId> begins_;
  OpProfile profile_;
};

}  // namespace

OpProfile measure_profile(const ProfileRequest& request) {
  return Profiler(request).run();
}

}  // namespace rookery
