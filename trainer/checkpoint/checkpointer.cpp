#include "trainer/checkpoint/checkpointer.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "models/base/check.hpp"
#include "models/base/error.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kNoStep = -1;

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

// Nothing where it is missing or damaged; the Executable's state is then perhaps half of it.
std::optional<RunState> try_load(const CheckpointOwner& owner, std::int64_t step, Executable& executable) {
  try {
    PartReader part(part_path(owner, step));
    load_part(part, executable);
    return part.facts().run;
  } catch (const DataError& error) {
    spdlog::warn("the checkpoint of step {} cannot be used: {}: the one before is taken", step, error.what());
    return std::nullopt;
  }
}

}  // namespace

Checkpointer::Checkpointer(CheckpointOwner owner, TrainingSettings settings, KernelChoice kernels,
                           Executable& executable, Link& link, std::int64_t first_step)
    : owner_(std::move(owner)),
      settings_(std::move(settings)),
      kernels_(std::move(kernels)),
      executable_(executable),
      link_(link),
      schedule_(interval_of(settings_), link, owner_.stage, owner_.stages, first_step),
      writer_(owner_) {}

void Checkpointer::between_steps(const RunState& run) {
  const bool is_end = run.epoch == settings_.epochs;
  if (!is_end && !schedule_.is_due(run)) return;
  writer_.finish();
  remove_old(least_of_all(link_, owner_.stage, owner_.stages, run.step, "newest checkpoint",
                          writer_.newest().value_or(kNoStep)));
  const CheckpointFacts facts{.run = run, .settings = settings_, .kernels = kernels_};
  if (is_end) {
    writer_.write_now(facts, executable_.training_state());
  } else {
    writer_.write_beside(facts, executable_.training_state());
  }
}

// A part counts as one of those that stay when every stage has its part of that step or a newer one.
void Checkpointer::remove_old(std::int64_t whole) {
  std::vector<std::int64_t> steps = part_steps(owner_);
  std::erase_if(steps, [&](std::int64_t step) { return step > whole; });
  const auto keep = static_cast<std::size_t>(settings_.keep_checkpoints);
  for (std::size_t i = 0; i + keep < steps.size(); ++i) {
    const std::filesystem::path path = part_path(owner_, steps[i]);
    std::error_code code;
    std::filesystem::remove(path, code);
    std::filesystem::remove(path.parent_path(), code);  // if it is empty
  }
}

void load_part(PartReader& part, Executable& executable) {
  const std::map<std::string, TensorView> state = executable.training_state();
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

std::optional<RunState> go_on_from_newest(const CheckpointOwner& owner, Executable& executable, Link& link) {
  std::int64_t at_most = std::numeric_limits<std::int64_t>::max();
  for (int round = 0;; ++round) {
    const auto least = [&](const char* what, std::int64_t number) {
      return least_of_all(link, owner.stage, owner.stages, round, what, number);
    };
    const std::int64_t step = least("newest checkpoint to go on from", newest_part(owner, at_most));
    if (step == kNoStep && round == 0) return std::nullopt;
    if (step == kNoStep) {
      throw DataError(fmt::format(
          "{}: every checkpoint of plan {} is damaged on one node or another: start without --resume",
          checkpoints_folder(owner.node_data).string(), owner.plan_id));
    }
    const std::optional<RunState> run = try_load(owner, step, executable);
    if (least("checkpoint that is loaded", run ? 1 : 0) == 1) return run;
    at_most = step - 1;
  }
}

}  // namespace rookery
