// Whole training runs in one process: every stage a thread, joined by MemoryLink.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "models/graph/passes/loss.hpp"
#include "models/graph/stage.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/graph/state/state_dict.hpp"
#include "models/kernels/choose.hpp"
#include "models/kernels/threads.hpp"
#include "models/runtime/executable.hpp"
#include "tests/support/progress_callback.hpp"
#include "tests/support/scratch_folder.hpp"
#include "trainer/feed/sample_source.hpp"
#include "trainer/feed/split.hpp"
#include "trainer/memory_link.hpp"
#include "trainer/progress/text_files.hpp"
#include "trainer/settings/batch_sizes.hpp"
#include "trainer/trainer.hpp"

namespace rookery {

struct PipelineResult {
  std::vector<double> losses;                 // one a step
  std::vector<double> accuracies;             // percent, one a validation
  StateDict state;                            // of all stages
  std::vector<std::uint64_t> sample_digests;  // by stage
  std::vector<WorkTimes> times;               // by stage
};

// A run between two steps, as the stages of any cut may go on from it.
struct Snapshot {
  RunState state;      // the Leaf's
  StateDict training;  // training_state() of all stages, and PipelineOptions::further_state
};

struct PipelineOptions {
  std::filesystem::path output;  // of the Leaf's files; empty: a scratch folder
  // Makes the links; empty: MemoryLink.
  std::function<std::vector<std::unique_ptr<Link>>(int stages)> make_links;
  // What a stage's links keep from step to step; empty: nothing. The same on all that have it.
  std::function<std::map<std::string, TensorView>(const Stage&)> further_state;
  const Processor* processor = &host_processor();  // of every stage
  // Changes the options of a stage's Trainer; empty: they stay.
  std::function<TrainerOptions(const Stage&, Executable&, Link&, TrainerOptions)> make_trainer_options;
  // Looks at a stage's Trainer when its run has ended, in whatever way.
  std::function<void(const Stage&, const Trainer&)> look_at_end;
  int threads = 1;                      // of the kernels of every stage
  std::optional<ClusterShares> shares;  // of several clusters, which make_trainer_options joins
  const Snapshot* from = nullptr;       // where the run goes on
  std::map<std::int64_t, Snapshot>* snapshots = nullptr;  // filled between all steps where that is possible
};

// The error that came first; those of the peers that it stopped follow from it.
class FirstError {
 public:
  void keep(std::exception_ptr error) {
    const std::scoped_lock lock(mutex_);
    if (!first_) first_ = std::move(error);
  }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

// Trains `model` (without its loss) cut at `begins` from initial_state(), as clusterize and the
// providers would.
inline PipelineResult run_pipeline(Graph model, std::span<const OpId> begins,
                                   const TrainingSettings& settings, const Dataset& dataset,
                                   const PipelineOptions& options = {}) {
  add_loss(model, settings.loss, target_types(dataset, settings.loss));
  const StateDict initial = initial_state(model, settings.seed);
  const Split split = split_dataset(dataset.size(), settings);
  const DataSizes data{std::ssize(split.train), std::ssize(split.validation)};
  const KernelChoice kernels =
      choose_kernels(model, micro_batch_sizes(settings, settings.batch_size).front());
  const std::vector<Stage> stages = cut(model, begins);
  const int count = static_cast<int>(stages.size());
  auto links =
      options.make_links ? options.make_links(count) : make_memory_links(count, std::chrono::seconds(60));

  const ScratchFolder scratch;
  PipelineResult result;
  result.sample_digests.resize(stages.size());
  result.times.resize(stages.size());
  std::mutex state_mutex;
  FirstError error;
  const auto run_stage = [&](const Stage& stage, Link& link) {
    set_kernel_threads(options.threads);
    StateDict state;
    for (const auto& ids : {stage.graph.parameters(), stage.graph.buffers()}) {
      for (const ValueId id : ids) {
        const std::string& name = stage.graph.value(id).name;
        state.emplace(name, initial.at(name).clone());
      }
    }
    CompileOptions compile = compile_options(settings, data, stage.index, count, kernels, options.shares);
    compile.processor = options.processor;
    Executable executable(stage, compile, state);
    TextFiles files(options.output.empty() ? scratch.path() : options.output);
    ProgressCallback keep([&](const Progress& progress) {
      if (progress.loss) result.losses.push_back(*progress.loss);
      if (progress.accuracy) result.accuracies.push_back(*progress.accuracy);
    });
    TrainerOptions trained{
        .settings = settings, .data = data, .logs = {&files, &keep}, .shares = options.shares};
    const auto kept_state = [&] {
      std::map<std::string, TensorView> kept = executable.training_state();
      if (options.further_state) kept.merge(options.further_state(stage));
      return kept;
    };
    if (options.from != nullptr) {
      trained.from = options.from->state;
      for (const auto& [name, view] : kept_state()) copy(options.from->training.at(name).view(), view);
    }
    if (options.snapshots != nullptr) {
      trained.between_steps = [&, kept_state](const RunState& now, bool /*is_end*/) {
        const std::scoped_lock lock(state_mutex);
        Snapshot& snapshot = (*options.snapshots)[now.step];
        if (stage.is_leaf()) snapshot.state = now;
        for (const auto& [name, view] : kept_state()) {
          Tensor tensor(view.type);
          copy(view, tensor.view());
          snapshot.training.insert_or_assign(name, std::move(tensor));
        }
      };
    }
    if (options.make_trainer_options)
      trained = options.make_trainer_options(stage, executable, link, std::move(trained));
    Trainer trainer(executable, link, stage.is_root() ? &dataset : nullptr, trained);
    try {
      trainer.run();
    } catch (...) {
      if (options.look_at_end) options.look_at_end(stage, trainer);
      throw;
    }
    if (options.look_at_end) options.look_at_end(stage, trainer);
    const std::scoped_lock lock(state_mutex);
    result.state.merge(executable.state());
    result.sample_digests[stage.index] = trainer.sample_digest();
    result.times[stage.index] = trainer.times();
  };
  {
    std::vector<std::jthread> threads;
    for (const Stage& stage : stages) {
      // The link goes after the error is kept: then the others' errors follow.
      threads.emplace_back([&, link = std::move(links[stage.index])] {
        try {
          run_stage(stage, *link);
        } catch (...) {
          error.keep(std::current_exception());
        }
      });
    }
  }
  error.rethrow();
  return result;
}

// `stages` begins, spread evenly over the places where the model (without its loss) may be cut.
inline std::vector<OpId> even_cuts(Graph model, const LossSettings& loss, const Dataset& dataset,
                                   std::size_t stages) {
  add_loss(model, loss, target_types(dataset, loss));
  const std::vector<OpId> positions = cut_positions(model);
  std::vector<OpId> begins{0};
  for (std::size_t stage = 1; stage < stages; ++stage)
    begins.push_back(positions[stage * positions.size() / stages]);
  return begins;
}

// Bit for bit.
inline bool same_state(const StateDict& a, const StateDict& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.type() == y.second.type() &&
           std::ranges::equal(x.second.view().bytes(), y.second.view().bytes());
  });
}

}  // namespace rookery
