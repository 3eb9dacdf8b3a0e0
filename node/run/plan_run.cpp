#include "node/run/plan_run.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <system_error>
#include <utility>
#include <vector>

#include "clusterize/plan/cluster_plan.hpp"
#include "clusterize/plan/plan_lock.hpp"
#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/machine/cpu_steal.hpp"
#include "models/base/machine/processors.hpp"
#include "models/base/process/process_memory.hpp"
#include "models/base/process/stop_signals.hpp"
#include "models/kernels/threads.hpp"
#include "node/membership/membership.hpp"
#include "node/status/figures_exchange.hpp"
#include "node/status/status_exchange.hpp"
#include "trainer/checkpoint/reshard/run_start.hpp"
#include "trainer/feed/split.hpp"
#include "trainer/progress/tensorboard/run_folder.hpp"
#include "trainer/progress/tensorboard/weight_histograms.hpp"
#include "trainer/progress/text_files.hpp"

namespace rookery {
namespace {

// The least that the disk must have room for before a Leaf joins the others: a few thousand lines of losses.
constexpr std::uint64_t kLeastLogBytes = 1U << 16;

// Of the clusters after the first a folder of their own: on one machine each of them writes its losses.
std::filesystem::path output_of(const NodeOptions& options, const NodeMetadata& metadata) {
  if (metadata.cluster == 0) return options.output;
  return options.output / fmt::format("cluster_{}", metadata.cluster);
}

// Does it when it is destroyed.
class AtTheEnd {
 public:
  explicit AtTheEnd(std::function<void()> action) : action_(std::move(action)) {}
  ~AtTheEnd() { action_(); }
  AtTheEnd(const AtTheEnd&) = delete;
  AtTheEnd& operator=(const AtTheEnd&) = delete;

 private:
  std::function<void()> action_;
};

std::string way_on(std::int64_t newest) {
  return fmt::format(
      "the checkpoint of step {} is written, go on from there with --resume (of launch, or of every "
      "provider)",
      newest);
}

}  // namespace

PlanRun::PlanRun(NodeProcess& process)
    : process_(process),
      lock_(lock_for_running(process.options().node_data, process.options().on_waiting)),
      metadata_(read_metadata(process.options().node_data, process.options().name)),
      output_(output_of(process.options(), metadata_)) {
  const NodeOptions& options = process_.options();
  check_start(options.start, metadata_.cluster, metadata_.clusters, metadata_.settings);
  set_kernel_threads(options.threads.value_or(
      share_of_processors(metadata_.threads, metadata_.threads_of_host, usable_processors())));
  make_directories(output_);
  LoadedStage loaded = read_stage(stage_folder(options.node_data, metadata_), metadata_);
  take_room(loaded);
  network_.emplace(options, metadata_, loaded.stage);
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
  if (loaded.stage.is_leaf()) AtomicFile(output_ / "losses.txt", kLeastLogBytes);
  write_trace();
}

// Before training, too, so that it is known whether it can be written.
void PlanRun::write_trace() const {
  const std::filesystem::path& path = process_.options().trace;
  if (path.empty()) return;
  rookery::write_trace(path,
                       {.plan_id = metadata_.plan_id,
                        .node = metadata_.node,
                        .cluster = metadata_.cluster,
                        .stage = metadata_.stage},
                       trace_.actions());
}

// However the run ends; a trace that cannot be written does not make it fail.
void PlanRun::end_trace() const {
  try {
    write_trace();
  } catch (const DataError& error) {
    spdlog::warn("{}", error.what());
  }
}

void PlanRun::open_data(const Stage& stage) {
  if (!stage.is_root()) return;
  dataset_ = &process_.dataset(metadata_.settings);
  check_planned(*dataset_, metadata_.settings, metadata_.data);
}

void PlanRun::compile(LoadedStage loaded) {
  CompileOptions options = compile_options(metadata_.settings, metadata_.data, metadata_.stage,
                                           metadata_.stages, metadata_.kernels, metadata_.shares);
  options.recompute = metadata_.recompute;
  // What the plan counts is no part of the floor, though it is here already.
  floor_bytes_ =
      process_memory().anonymous - network_->buffer_bytes() - (dataset_ != nullptr ? dataset_->bytes() : 0);
  for (const auto& [name, tensor] : loaded.state)
    floor_bytes_ -= static_cast<std::int64_t>(tensor.type().bytes());
  executable_.emplace(loaded.stage, options, std::move(loaded.state));
}

NodeReport PlanRun::run(const std::function<void(Trainer&)>& loop) {
  try {
    NodeReport report = train_with_others(loop);
    if (!not_saved_) return report;
  } catch (Interrupted& interrupted) {
    network_->stop(stop_reason(interrupted.signal()));
    advise(interrupted);
    throw;
  } catch (RunEnded& ended) {
    advise(ended);
    if (!is_trained_) throw;
    throw RunEnded(
        fmt::format("this node finished{}, but {}", is_saved_ ? " and saved its weights" : "", ended.what()));
  } catch (Error& error) {
    network_->stop(fmt::format("failed: {}", error.what()));
    advise(error);
    if (is_saved_) error.add_context("this node finished and saved its weights, but");
    throw;
  } catch (const std::exception& error) {
    network_->stop(fmt::format("failed: {}", error.what()));
    throw;
  }
  std::rethrow_exception(not_saved_);
}

NodeReport PlanRun::train_with_others(const std::function<void(Trainer&)>& loop) {
  const NodeOptions& options = process_.options();
  network_->join();
  join_clusters();
  if (options.on_training) options.on_training();
  StatusExchange status(network_->pipeline_network(), executable_->stage().is_leaf(), options.on_progress);
  NodeReport report = train(status, loop);
  network_->leave();
  status.tell_end();
  const ProcessMemory memory = process_memory();
  // Code is mapped page by page as it is first used: all of it is known only now.
  report.floor_bytes = floor_bytes_ + memory.of_files;
  report.checkpoint_bytes = checkpoints_ ? checkpoints_->bytes() : 0;
  report.peak_bytes = memory.peak;
  return report;
}

NodeReport PlanRun::train(RunLog& status, const std::function<void(Trainer&)>& loop) {
  TextFiles files(output_);
  RunFolder board(output_, process_.options().node_data);
  WeightHistograms histograms(output_, metadata_.node, *executable_);
  FiguresExchange figures(figures_options(board));
  TrainerOptions options{.settings = metadata_.settings,
                         .data = metadata_.data,
                         .logs = {&files, &board, &figures, &histograms, &status},
                         .from = starting_point(),
                         .shares = metadata_.shares,
                         .averager = averager_.get(),
                         .roots = roots_ ? &*roots_ : nullptr,
                         .trace = process_.options().trace.empty() ? nullptr : &trace_,
                         .turn = process_.options().turn};
  if (options.from)
    steps_ahead_ = steps_ahead(*options.from, metadata_.shares.joint(), metadata_.data.train_samples);
  network_->begin_run(steps_ahead_);
  if (averager_) averager_->begin(options.from ? options.from->step : 0, steps_ahead_);
  if (metadata_.settings.checkpoint_every != "never") {
    checkpoints_.emplace(checkpoint_owner(), metadata_.settings, metadata_.kernels, *executable_, agreement(),
                         course(options.from.value_or(RunState())));
    options.reads_state = [&](const RunState& run, bool is_end) { return checkpoints_->is_due(run, is_end); };
    options.between_steps = [&](const RunState& run, bool is_end) {
      if (const auto stopped = checkpoints_->between_steps(run, is_end)) end_early(*stopped);
    };
  }
  if (stops_between_steps(metadata_.settings)) stops_later_.emplace();
  Trainer trainer(*executable_, network_->pipeline(), dataset_, options);
  const auto begin = std::chrono::steady_clock::now();
  const CpuSteal stolen;
  const AtTheEnd trace([this] { end_trace(); });
  const std::exception_ptr ended = run_loop(trainer, loop);
  is_trained_ = true;
  // A signal of the last step is too late to stop anything; one that comes from here on ends the waiting.
  if (stop_signal() == 0) stops_later_.reset();
  NodeReport report = report_of(trainer);
  add_rounds(report);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  report.stolen = stolen.share();
  if (trained_) save(trainer);
  if (ended) std::rethrow_exception(ended);
  return report;
}

FiguresOptions PlanRun::figures_options(RunFolder& board) {
  FiguresOptions options{.network = network_->pipeline_network(), .stage = metadata_.stage};
  for (const PeerInfo& member : metadata_.members) options.nodes.push_back(member.node);
  options.add_rounds = [this](NodeFigures& figures) {
    if (!rings_) return;
    figures.rounds = rings_->rounds();
    figures.exposed = rings_->waited_seconds();
    const std::vector<std::uint64_t> sent = rings_->bytes_sent();
    figures.round_bytes = std::accumulate(sent.begin(), sent.end(), std::uint64_t{0});
  };
  options.keep = [&board](std::int64_t step, const RunFolder::Numbers& numbers) {
    board.add_numbers(step, numbers);
  };
  return options;
}

void PlanRun::add_rounds(NodeReport& report) const {
  if (!rings_ || rings_->rounds() == 0) return;
  report.rounds = rings_->rounds();
  report.round_ms = 1e3 * rings_->seconds() / static_cast<double>(rings_->rounds());
  report.exposed_seconds = rings_->waited_seconds();
  const std::vector<std::uint64_t> bytes = rings_->bytes_sent();
  for (std::size_t i = 0; i < bytes.size(); ++i) report.ring_bytes[rings_->members()[i].id] = bytes[i];
}

// Where there are several.
void PlanRun::join_clusters() {
  if (metadata_.clusters == 1) return;
  std::vector<RingMember> members;
  for (const OpenedRing& ring : network_->rings())
    members.push_back(
        {.id = ring.id, .tensors = ring.parameters, .link = ring.link.get(), .under_way = ring.under_way});
  rings_.emplace(std::move(members), metadata_.cluster, metadata_.clusters,
                 parse_compression(metadata_.settings.averaging.compression));
  averager_ = make_averager({.settings = metadata_.settings,
                             .shares = metadata_.shares,
                             .train_samples = metadata_.data.train_samples,
                             .validates = metadata_.data.validation_samples > 0,
                             .fragments = metadata_.fragments},
                            *executable_, *rings_);
  if (network_->roots() != nullptr) roots_.emplace(*network_->roots(), metadata_.cluster, metadata_.clusters);
}

FurtherState PlanRun::further_state() {
  FurtherState state = network_->reconstructions();
  if (averager_) state.merge(averager_->state());
  return state;
}

RunCourse PlanRun::course(const RunState& from) {
  RunCourse course{.from = from, .steps = steps(), .further = further_state()};
  if (averager_) course.next_place = [this](std::int64_t step) { return united_place_after(step); };
  return course;
}

// The first step from here on of which all clusters have samples is trained before. Stages of a cluster that
// has none may be through with a step before their Root begins it, and would hear too late that the run ends
// there.
std::int64_t PlanRun::united_place_after(std::int64_t step) const {
  const std::int64_t samples = metadata_.data.train_samples;
  const std::int64_t per_epoch = batches_per_epoch(metadata_.shares.joint(), samples);
  while (step + 1 < steps() && !metadata_.shares.all_train_in((step - steps_ahead_) % per_epoch, samples))
    ++step;
  return averager_->united_after(step);
}

Agreement PlanRun::agreement() {
  return {network_->pipeline(), metadata_.stage, metadata_.stages, roots_ ? &*roots_ : nullptr};
}

CheckpointOwner PlanRun::checkpoint_owner() const {
  return {.node_data = process_.options().node_data,
          .plan_id = metadata_.plan_id,
          .stage = metadata_.stage,
          .stages = metadata_.stages,
          .cluster = metadata_.cluster};
}

std::optional<RunState> PlanRun::starting_point() {
  const StartChoice& choice = process_.options().start;
  std::optional<RunState> from = start_run({.owner = checkpoint_owner(),
                                            .clusters = metadata_.clusters,
                                            .choice = choice,
                                            .plan = metadata_.resume,
                                            .further = further_state()},
                                           *executable_, agreement());
  if (!process_.options().on_waiting) return from;
  if (choice.sync_from) {
    process_.options().on_waiting(fmt::format("beginning after step {} with the state of cluster {}",
                                              from ? from->step : 0, *choice.sync_from));
  } else if (from) {
    process_.options().on_waiting(fmt::format("going on after step {}", from->step));
  } else if (choice.resume) {
    process_.options().on_waiting("there is no checkpoint of this plan: from the beginning");
  }
  return from;
}

std::int64_t PlanRun::steps() const {
  return metadata_.settings.epochs *
             batches_per_epoch(metadata_.shares.joint(), metadata_.data.train_samples) +
         steps_ahead_;
}

// All stages are here, and have nothing to say to each other any more: nobody takes the end for a loss.
void PlanRun::end_early(const StoppedRun& stopped) {
  is_stopped_ = true;
  try {
    network_->leave();
  } catch (const TransportError& error) {
    spdlog::warn("{}", error.what());  // who is lost now has written its part
  }
  std::string where = fmt::format("after step {}", stopped.step);
  if (stopped.newest != stopped.step) where += ", but its checkpoint could not be written on every node";
  if (stopped.newest) where += fmt::format(": {}", way_on(*stopped.newest));
  if (const int own = stop_signal(); own != 0)
    throw Interrupted(own, fmt::format("stopped by {} {}", signal_name(own), where));
  throw RunEnded(
      fmt::format("{} {} {}", name_of(stopped.request), stop_reason(stopped.request.signal), where));
}

// The node that was asked; of another cluster this one knows the Root by name.
std::string PlanRun::name_of(const StopRequest& request) const {
  const bool is_own = request.cluster == metadata_.cluster;
  const std::vector<PeerInfo>& known = is_own ? metadata_.members : metadata_.roots;
  const int at = is_own ? request.stage : request.cluster;
  const PeerInfo& peer = known.at(at);
  std::string name = fmt::format("{} ({})", peer.node, peer.address);
  if (is_own || request.stage == 0) return name;
  return fmt::format("stage {} of cluster {}, whose Root is {},", request.stage, request.cluster, name);
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
  const std::vector<std::filesystem::path> elsewhere{output_, std::filesystem::current_path(code),
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
