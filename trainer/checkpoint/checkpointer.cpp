#include "trainer/checkpoint/checkpointer.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kNoStep = -1;
// How long a checkpoint waits for the one before it to be in the bucket, once: enough for what is small.
constexpr std::chrono::seconds kUploadPatience(10);
constexpr std::int64_t kAnyStep = std::int64_t{1} << 50;  // beyond all, and still a number as double

CheckpointInterval interval_of(const TrainingSettings& settings) {
  const std::optional<CheckpointInterval> interval = checkpoint_interval(settings.checkpoint_every);
  ROOKERY_CHECK(interval.has_value(), "checkpoints that are never written");
  return *interval;
}

std::int64_t newest_part(const CheckpointOwner& owner, std::int64_t at_most) {
  std::vector<std::int64_t> steps = part_steps(owner);
  std::erase_if(steps, [&](std::int64_t step) { return step > at_most; });
  return steps.empty() ? kNoStep : steps.back();
}

std::optional<CheckpointBucket> bucket_of(const TrainingSettings& settings, const CheckpointOwner& owner,
                                          const std::map<std::string, TensorView>& state) {
  if (!settings.checkpoint_upload) return std::nullopt;
  std::uint64_t bytes = 0;
  for (const auto& [name, view] : state) bytes += view.type.bytes();
  if (bytes > kMostUpload) {
    throw ConfigError(fmt::format(
        "checkpoint_upload: this node's part of a checkpoint has {} bytes, and one request may put "
        "{} into a bucket: leave it null, or plan for more nodes to a cluster",
        bytes, kMostUpload));
  }
  return with_context("checkpoint_upload",
                      [&] { return CheckpointBucket(*settings.checkpoint_upload, owner); });
}

// Nothing where it is missing or damaged; the Executable's state is then perhaps half of it.
std::optional<RunState> try_load(const CheckpointOwner& owner, std::int64_t step, Executable& executable,
                                 const FurtherState& further) {
  try {
    PartReader part(part_path(owner, step));
    load_part(part, executable, further);
    return part.facts().run;
  } catch (const DataError& error) {
    spdlog::warn("the checkpoint of step {} cannot be used: {}: the one before is taken", step, error.what());
    return std::nullopt;
  }
}

}  // namespace

bool stops_between_steps(const TrainingSettings& settings) {
  return is_synchronous(settings.schedule) && settings.checkpoint_every != "never";
}

Checkpointer::Checkpointer(CheckpointOwner owner, TrainingSettings settings, KernelChoice kernels,
                           Executable& executable, Agreement agreement, RunCourse run)
    : owner_(std::move(owner)),
      settings_(std::move(settings)),
      kernels_(std::move(kernels)),
      executable_(executable),
      further_(std::move(run.further)),
      agreement_(agreement),
      first_step_(run.from.step),
      last_due_(first_step_ == 0 ? std::nullopt : std::optional(first_step_)),
      whole_(last_due_),
      schedule_(interval_of(settings_), agreement, run.from),
      writer_(owner_, bucket_of(settings_, owner_, state()), settings_.keep_checkpoints) {
  put_aside_later_ones();
  if (stops_between_steps(settings_))
    stop_.emplace(agreement_, run.steps, std::move(run.stop_signal), std::move(run.next_place));
}

bool Checkpointer::is_due(const RunState& run, bool is_end) {
  if (!due_) {
    const std::optional<StopRequest> stop = stop_ && !is_end ? stop_->is_due(run.step) : std::nullopt;
    due_ = Due{.is_due = is_end || stop || schedule_.is_due(run), .stop = stop};
  }
  return due_->is_due;
}

std::optional<StoppedRun> Checkpointer::between_steps(const RunState& run, bool is_end) {
  const bool is_place_due = is_due(run, is_end);
  const std::optional<StopRequest> stop = std::exchange(due_, std::nullopt)->stop;
  if (!is_place_due) return std::nullopt;
  const bool is_last = is_end || stop;
  const auto whole = newest_of_all(run.step, "newest checkpoint");
  const auto upload = next_upload(run.step, is_last);
  if (whole) remove_old(*whole);
  last_due_ = run.step;
  const CheckpointFacts facts{.run = run, .settings = settings_, .kernels = kernels_};
  if (!is_last) {
    writer_.write_beside(facts, state(), upload);
    return std::nullopt;
  }
  writer_.write_now(facts, state(), upload);
  writer_.finish_upload();
  if (!stop) return std::nullopt;
  const std::optional<std::int64_t> newest = newest_of_all(run.step, "newest checkpoint in the end");
  if (newest) remove_old(*newest);
  return StoppedRun{*stop, run.step, newest};
}

std::map<std::string, TensorView> Checkpointer::state() {
  std::map<std::string, TensorView> state = executable_.training_state();
  state.insert(further_.begin(), further_.end());
  return state;
}

std::optional<std::int64_t> Checkpointer::newest() {
  writer_.finish();
  if (writer_.newest() || first_step_ == 0) return writer_.newest();
  return first_step_;
}

// The newest step of which every node has its part. One whose disk was full then has none, though it may have
// newer ones.
std::optional<std::int64_t> Checkpointer::newest_of_all(std::int64_t step, const char* what) {
  const bool has_last = last_due_ && newest() == last_due_;
  if (agreement_.least_of_all(step, what, has_last ? 1 : 0) == 1) whole_ = last_due_;
  return whole_;
}

// All nodes put parts of the same steps into the bucket, or none would be whole: not this one while the last
// is on its way from any of them, unless the run ends with it.
std::optional<CheckpointUpload> Checkpointer::next_upload(std::int64_t step, bool is_last) {
  if (!writer_.has_bucket()) return std::nullopt;
  const bool is_idle =
      writer_.is_uploaded_within(is_bucket_slow_ ? std::chrono::seconds(0) : kUploadPatience);
  is_bucket_slow_ =
      agreement_.least_of_all(step, "nodes that are through with the bucket", is_idle ? 1 : 0) == 0;
  if (is_bucket_slow_ && !is_last) {
    spdlog::info("the checkpoint of step {} is not put into the bucket: the one before is still on its way",
                 step);
    return std::nullopt;
  }
  if (!is_bucket_slow_) {
    const std::int64_t whole = agreement_.least_of_all(step, "newest checkpoint in the bucket",
                                                       writer_.newest_uploaded().value_or(kNoStep));
    if (whole != kNoStep) whole_in_bucket_ = whole;
  }
  return CheckpointUpload{.whole = whole_in_bucket_};
}

// Parts that stay are counted from the newest that every node has.
void Checkpointer::remove_old(std::int64_t whole) {
  std::vector<std::int64_t> steps = part_steps(owner_);
  const auto under_way = writer_.under_way();  // to the bucket, which reads it from here
  std::erase_if(steps, [&](std::int64_t step) { return step > whole; });
  const auto keep = static_cast<std::size_t>(settings_.keep_checkpoints);
  for (std::size_t i = 0; i + keep < steps.size(); ++i) {
    if (steps[i] == under_way) continue;
    const std::filesystem::path path = part_path(owner_, steps[i]);
    std::error_code code;
    std::filesystem::remove(path, code);
    std::filesystem::remove(path.parent_path(), code);  // if it is empty
  }
}

// Parts of steps that this run has yet to train are of one before, from which it does not go on: as its logs,
// they get another name.
void Checkpointer::put_aside_later_ones() const {
  for (const std::int64_t step : part_steps(owner_)) {
    if (step <= first_step_) continue;
    const std::filesystem::path path = part_path(owner_, step);
    std::error_code code;
    std::filesystem::rename(path, path.string() + ".1", code);
    if (code) throw DataError(fmt::format("{}: cannot put it aside: {}", path.string(), code.message()));
  }
}

void load_part(PartReader& part, Executable& executable, const FurtherState& further) {
  std::map<std::string, TensorView> state = executable.training_state();
  for (const auto& entry : further)
    if (part.tensors().types().contains(entry.first)) state.insert(entry);
  for (const auto& [name, view] : state) {
    const auto type = part.tensors().types().find(name);
    if (type == part.tensors().types().end() || type->second != view.type) {
      throw DataError(
          fmt::format("the checkpoint of step {} has no {} of type {}: it is of another model or optimizer",
                      part.facts().run.step, name, view.type.to_string()));
    }
  }
  for (const auto& [name, view] : state) {
    if (view.device == nullptr) {
      part.tensors().read(name, view.bytes());
    } else {
      copy(part.tensors().read(name).view(), view);
    }
  }
}

std::optional<RunState> go_on_from_newest(const CheckpointOwner& owner, Executable* executable,
                                          Agreement agreement, const FurtherState& further) {
  std::int64_t at_most = std::numeric_limits<std::int64_t>::max();
  for (int round = 0;; ++round) {
    const auto least = [&](const char* what, std::int64_t number) {
      return agreement.least_of_all(round, what, number);
    };
    const std::int64_t own = executable == nullptr ? kAnyStep : newest_part(owner, at_most);
    const std::int64_t step = least("newest checkpoint to go on from", own);
    if (step == kNoStep && round == 0) return std::nullopt;
    if (step == kNoStep) {
      throw DataError(fmt::format(
          "{}: every checkpoint of plan {} is damaged on one node or another: start without --resume",
          checkpoints_folder(owner.node_data).string(), owner.plan_id));
    }
    std::optional<RunState> run =
        executable == nullptr ? RunState{.step = step} : try_load(owner, step, *executable, further);
    if (least("checkpoint that is loaded", run ? 1 : 0) == 1) return run;
    at_most = step - 1;
  }
}

}  // namespace rookery
