#include "node/run/plan_run.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "clusterize/plan/cluster_plan.hpp"
#include "clusterize/plan/plan_lock.hpp"
#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/process/cpu_steal.hpp"
#include "models/base/process/process_memory.hpp"
#include "models/base/process/program.hpp"
#include "node/membership/membership.hpp"
#include "node/run/link_options.hpp"
#include "node/run/status_exchange.hpp"
#include "trainer/checkpoint/reshard.hpp"
#include "trainer/feed/split.hpp"
#include "trainer/memory_link.hpp"
#include "trainer/progress/text_files.hpp"

namespace rookery {
namespace {

// The least that the disk must have room for before a Leaf joins the others: a few thousand lines of losses.
constexpr std::uint64_t kLeastLogBytes = 1U << 16;

NodeMetadata runnable_metadata(const NodeOptions& options) {
  NodeMetadata metadata = read_metadata(options.node_data, options.name);
  check_runnable(metadata);
  return metadata;
}

std::string way_on(std::int64_t newest) {
  return fmt::format(
      "the checkpoint of step {} is written, go on from there with --resume (of launch, or of every "
      "provider)",
      newest);
}

}  // namespace

void check_runnable(const NodeMetadata& metadata) {
  const std::string problem = training_problem(static_cast<std::size_t>(metadata.clusters));
  if (!problem.empty()) throw ConfigError(problem);
}

PlanRun::PlanRun(NodeProcess& process)
    : process_(process),
      lock_(lock_for_running(process.options().node_data, process.options().on_waiting)),
      metadata_(runnable_metadata(process.options())) {
  const NodeOptions& options = process_.options();
  make_directories(options.output);
  LoadedStage loaded = read_stage(stage_folder(options.node_data, metadata_), metadata_);
  take_room(loaded);
  listen(loaded.stage);
  throw_if_stopped();
  open_data(loaded.stage);
  throw_if_stopped();
  compile(std::move(loaded));
}

// That there is no room for what a run writes is told before anybody trains for it.
void PlanRun::take_room(const LoadedStage& loaded) {
  const NodeOptions& options = process_.options();
  if (metadata_.settings.save) trained_.emplace(options.node_data, metadata_, views_of(loaded.state));
  // The logs themselves begin when all peers are here: until then those of the run before stay.
  if (loaded.stage.is_leaf()) AtomicFile(options.output / "losses.txt", kLeastLogBytes);
}

// A cluster of one has nobody to talk to: no sockets.
void PlanRun::listen(const Stage& stage) {
  if (metadata_.stages == 1) {
    link_ = std::move(make_memory_links(1, std::chrono::milliseconds(0)).front());
    return;
  }
  pipeline_ = pipeline_options(process_.options(), metadata_, stage);
  transport_bytes_ = static_cast<std::int64_t>(pipeline_.buffers.bytes());
  catch_stop_signals();
  EndpointOptions made = endpoint_options(process_.options(), metadata_);
  made.stop_descriptor = stop_descriptor();
  endpoint_.emplace(std::move(made));
}

void PlanRun::open_data(const Stage& stage) {
  if (!stage.is_root()) return;
  dataset_ = &process_.dataset(metadata_.settings.data);
  check_planned_samples(split_dataset(dataset_->size(), metadata_.settings), metadata_.settings,
                        metadata_.data);
}

void PlanRun::compile(LoadedStage loaded) {
  CompileOptions options = compile_options(metadata_.settings, metadata_.data, metadata_.stage,
                                           metadata_.stages, metadata_.kernels);
  options.recompute = metadata_.recompute;
  // What the plan counts is no part of the floor, though it is here already.
  floor_bytes_ =
      process_memory().anonymous - transport_bytes_ - (dataset_ != nullptr ? dataset_->bytes() : 0);
  for (const auto& [name, tensor] : loaded.state)
    floor_bytes_ -= static_cast<std::int64_t>(tensor.type().bytes());
  executable_.emplace(loaded.stage, options, std::move(loaded.state));
}

void PlanRun::join() {
  if (!endpoint_) return;
  endpoint_->start(endpoint_peers(metadata_));
  auto network = endpoint_->open(std::move(pipeline_));
  network_ = network.get();
  link_ = std::move(network);
  network_->join();
}

void PlanRun::stop_others(const std::string& reason) {
  if (network_ != nullptr) network_->stop(reason);
}

NodeReport PlanRun::run(const std::function<void(Trainer&)>& loop) {
  try {
    NodeReport report = train_with_others(loop);
    if (!not_saved_) return report;
  } catch (Interrupted& interrupted) {
    stop_others(stop_reason(interrupted.signal()));
    advise(interrupted);
    throw;
  } catch (RunEnded& ended) {
    advise(ended);
    if (!is_trained_) throw;
    throw RunEnded(
        fmt::format("this node finished{}, but {}", is_saved_ ? " and saved its weights" : "", ended.what()));
  } catch (Error& error) {
    stop_others(fmt::format("failed: {}", error.what()));
    advise(error);
    if (is_saved_) error.add_context("this node finished and saved its weights, but");
    throw;
  } catch (const std::exception& error) {
    stop_others(fmt::format("failed: {}", error.what()));
    throw;
  }
  std::rethrow_exception(not_saved_);
}

NodeReport PlanRun::train_with_others(const std::function<void(Trainer&)>& loop) {
  const NodeOptions& options = process_.options();
  join();
  if (options.on_training) options.on_training();
  StatusExchange status(network_, executable_->stage().is_leaf(), options.on_progress);
  NodeReport report = train(status, loop);
  if (network_ != nullptr) {
    network_->leave();
    status.tell_end();
  }
  const ProcessMemory memory = process_memory();
  // Code is mapped page by page as it is first used: all of it is known only now.
  report.floor_bytes = floor_bytes_ + memory.of_files;
  report.checkpoint_bytes = checkpoints_ ? checkpoints_->bytes() : 0;
  report.peak_bytes = memory.peak;
  return report;
}

NodeReport PlanRun::train(RunLog& status, const std::function<void(Trainer&)>& loop) {
  TextFiles files(process_.options().output);
  TrainerOptions options{.settings = metadata_.settings,
                         .data = metadata_.data,
                         .logs = {&files, &status},
                         .from = starting_point()};
  if (metadata_.settings.checkpoint_every != "never") {
    checkpoints_.emplace(checkpoint_owner(), metadata_.settings, metadata_.kernels, *executable_, *link_,
                         RunSteps{options.from ? options.from->step : 0, steps()});
    options.between_steps = [&](const RunState& run, bool is_end) {
      if (const auto stopped = checkpoints_->between_steps(run, is_end)) end_early(*stopped);
    };
  }
  if (stops_between_steps(metadata_.settings)) stops_later_.emplace();
  Trainer trainer(*executable_, *link_, dataset_, options);
  const auto begin = std::chrono::steady_clock::now();
  const CpuSteal stolen;
  const std::exception_ptr ended = run_loop(trainer, loop);
  is_trained_ = true;
  // A signal of the last step is too late to stop anything; one that comes from here on ends the waiting.
  if (stop_signal() == 0) stops_later_.reset();
  NodeReport report = report_of(trainer);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  report.stolen = stolen.share();
  if (trained_) save(trainer);
  if (ended) std::rethrow_exception(ended);
  return report;
}

CheckpointOwner PlanRun::checkpoint_owner() const {
  return {.node_data = process_.options().node_data,
          .plan_id = metadata_.plan_id,
          .stage = metadata_.stage,
          .stages = metadata_.stages};
}

// A checkpoint of this plan, where one is asked for and there is one; else what the plan was made to go on
// from.
std::optional<RunState> PlanRun::starting_point() {
  const bool resume = process_.options().resume;
  std::optional<RunState> from;
  if (resume) from = go_on_from_newest(checkpoint_owner(), *executable_, *link_);
  if (!from && metadata_.resume)
    from = reshard(process_.options().node_data, *metadata_.resume, *executable_, *link_);
  if (process_.options().on_waiting && from)
    process_.options().on_waiting(fmt::format("going on after step {}", from->step));
  if (process_.options().on_waiting && resume && !from)
    process_.options().on_waiting("there is no checkpoint of this plan: from the beginning");
  return from;
}

std::int64_t PlanRun::steps() const {
  return metadata_.settings.epochs * batches_per_epoch(metadata_.settings, metadata_.data.train_samples);
}

// All stages are here, and have nothing to say to each other any more: nobody takes the end for a loss.
void PlanRun::end_early(const StoppedRun& stopped) {
  is_stopped_ = true;
  try {
    if (network_ != nullptr) network_->leave();
  } catch (const TransportError& error) {
    spdlog::warn("{}", error.what());  // who is lost now has written its part
  }
  std::string where = fmt::format("after step {}", stopped.step);
  if (stopped.newest != stopped.step) where += ", but its checkpoint could not be written on every node";
  if (stopped.newest) where += fmt::format(": {}", way_on(*stopped.newest));
  if (const int own = stop_signal(); own != 0)
    throw Interrupted(own, fmt::format("stopped by {} {}", signal_name(own), where));
  const auto peer = std::ranges::find(metadata_.members, stopped.request.stage, &PeerInfo::stage);
  ROOKERY_CHECK(peer != metadata_.members.end(), "stage {} of {}", stopped.request.stage, metadata_.stages);
  throw RunEnded(
      fmt::format("{} ({}) {} {}", peer->node, peer->address, stop_reason(stopped.request.signal), where));
}

// Where the run has ended in the middle of a step.
void PlanRun::advise(Error& error) {
  if (!checkpoints_ || is_stopped_ || is_trained_) return;
  if (const std::optional<std::int64_t> newest = checkpoints_->newest()) error.add_advice(way_on(*newest));
}

// What ends the run after this node's last step (a peer that fails, a signal) is returned: it does not undo
// the training.
std::exception_ptr PlanRun::run_loop(Trainer& trainer, const std::function<void(Trainer&)>& loop) const {
  try {
    loop(trainer);
    trainer.finish();
    return nullptr;
  } catch (...) {
    if (trainer.steps_done() < steps()) throw;
    return std::current_exception();
  }
}

// A failure is this node's alone: it is told now, and again when all others have ended in good order.
void PlanRun::save(const Trainer& trainer) {
  // Stems see no sample ids.
  const std::uint64_t digest = trainer.sample_digest();
  std::error_code code;
  const std::vector<std::filesystem::path> elsewhere{process_.options().output,
                                                     std::filesystem::current_path(code),
                                                     std::filesystem::temp_directory_path(code)};
  try {
    trained_->write(executable_->state_views(), trainer.steps_done(),
                    digest == 0 ? std::string() : fmt::format("{:016x}", digest), elsewhere);
    is_saved_ = true;
  } catch (const DataError& error) {
    spdlog::error("{}", error.what());
    not_saved_ = std::current_exception();
  }
}

}  // namespace rookery
