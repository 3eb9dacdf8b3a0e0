#include "clusterize/task/resume.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <system_error>

#include "clusterize/plan/node_metadata.hpp"
#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/io/checkpoint/checked_file.hpp"
#include "models/runtime/optimizer.hpp"
#include "trainer/checkpoint/whole_checkpoint.hpp"
#include "trainer/schedule/schedule.hpp"

namespace rookery {
namespace {

// What the parts that are here say together.
struct Found {
  CheckpointFiles files;
  CheckpointFacts facts;
  std::map<std::string, TensorType> types;
};

Found read(const CheckpointFiles& files) {
  Found found{.files = files, .facts = {}, .types = {}};
  for (const std::filesystem::path& path : files.parts) {
    if (path.empty()) continue;
    const PartReader part(path);
    KernelChoice kernels = std::move(found.facts.kernels);
    found.facts = part.facts();
    found.facts.kernels.merge(kernels);
    found.types.insert(part.tensors().types().begin(), part.tensors().types().end());
  }
  return found;
}

// The newest that is whole; else the newest, which other machines may have the rest of.
Found find(const std::filesystem::path& node_data, const std::string& name) {
  const std::vector<CheckpointFiles> all = checkpoints_named(node_data, name);
  if (std::ranges::none_of(all, &CheckpointFiles::is_complete)) return read(all.front());
  return read(open_checkpoint(node_data, name).files());
}

// Of a plan that is still here, those of stages whose parts are not.
void add_kernels_of_plan(Found& found, const std::filesystem::path& node_data) {
  try {
    for (NodeMetadata& node : read_all_metadata(node_data))
      if (node.plan_id == found.files.plan_id) found.facts.kernels.merge(node.kernels);
  } catch (const Error&) {  // there is no plan, or none that can be read
  }
}

void check_model(const Found& found, const TrainingTask& task) {
  const std::vector<TensorType> types = task.graph.types(1);
  for (const auto& ids : {task.graph.parameters(), task.graph.buffers()}) {
    for (const ValueId id : ids) {
      const std::string& name = task.graph.value(id).name;
      const TensorType& type = types[id];
      const auto there = found.types.find(name);
      if (there == found.types.end() && !found.files.is_complete()) continue;
      if (there == found.types.end() || there->second != type) {
        throw ConfigError(fmt::format("model: the checkpoint has no {} of type {}: it is of the model {}",
                                      name, type.to_string(), found.facts.settings.model));
      }
    }
  }
}

void check_optimizer(const TrainingSettings& before, const TrainingSettings& now) {
  const auto states = [](const TrainingSettings& settings) {
    const std::vector<std::string> names = make_optimizer(settings.optimizer)->state_names();
    return std::set<std::string>(names.begin(), names.end());
  };
  if (std::ranges::includes(states(before), states(now))) return;
  throw ConfigError(fmt::format(
      "optimizer: {} keeps {} for every parameter, of which the checkpoint of {} has {}: keep the optimizer, "
      "or begin "
      "anew from the weights alone: model_fusion --checkpoint, then clusterize --init",
      now.optimizer.name, fmt::join(states(now), ", "), before.optimizer.name,
      states(before).empty() ? "nothing" : fmt::format("only {}", fmt::join(states(before), ", "))));
}

std::vector<std::string> changes(const TrainingSettings& before, const TrainingSettings& now) {
  const OrderedJson old = to_json(before);
  const OrderedJson fresh = to_json(now);
  std::set<std::string> keys;
  for (const auto& [key, value] : old.items()) keys.insert(key);
  for (const auto& [key, value] : fresh.items()) keys.insert(key);
  const auto text = [](const OrderedJson& all, const std::string& key) {
    return all.contains(key) ? all.at(key).dump() : std::string("not given");
  };
  std::vector<std::string> lines;
  // What is chosen instead is told with the plan.
  if (now.averaging.mode == "auto") keys.erase("averaging");
  for (const std::string& key : keys) {
    if (text(old, key) != text(fresh, key))
      lines.push_back(fmt::format("{} is now {}, and was {}", key, text(fresh, key), text(old, key)));
  }
  return lines;
}

// The bits are those of the run undisturbed where every op is computed by the kernel that it began with.
void take_kernels(TrainingTask& task, const Found& found, std::vector<std::string>& lines) {
  if (task.settings.precision != found.facts.settings.precision) return;
  KeptKernels kept =
      keep_kernels(task.graph, micro_batch_sizes(task.settings, task.settings.batch_size).front(),
                   found.facts.kernels, task.kernels);
  task.kernels = std::move(kept.choice);
  if (kept.replaced.empty()) return;
  const std::string& first = *kept.replaced.begin();
  const auto before = found.facts.kernels.find(first);
  lines.push_back(fmt::format(
      "{} operator{} computed by other kernels than until now ({}: {} for {}): the bits will differ from "
      "those of "
      "the run undisturbed",
      kept.replaced.size(), kept.replaced.size() == 1 ? " is" : "s are", first, task.kernels.at(first),
      before == found.facts.kernels.end() ? "one that is not known here" : before->second));
}

// A folder elsewhere is no place where providers look.
void bring(const CheckpointFiles& files, const std::filesystem::path& node_data, std::int64_t step) {
  const std::filesystem::path folder = checkpoints_folder(node_data) / fmt::to_string(step);
  make_directories(folder);
  for (const std::filesystem::path& part : files.parts) {
    if (part.empty()) continue;
    std::error_code code;
    const std::filesystem::path place = folder / part.filename();
    if (std::filesystem::equivalent(part, place, code)) continue;
    CheckedReader(part).check_all();  // before it takes the place of another
    const std::filesystem::path copy = place.string() + ".copy";
    std::filesystem::copy_file(part, copy, std::filesystem::copy_options::overwrite_existing, code);
    if (!code) std::filesystem::rename(copy, place, code);
    if (!code) continue;
    const std::string reason = code.message();
    std::filesystem::remove(copy, code);
    throw DataError(fmt::format("{}: cannot copy to {}: {}", part.string(), place.string(), reason));
  }
}

}  // namespace

Resumption resume_task(TrainingTask& task, const std::filesystem::path& node_data,
                       const std::string& step_or_folder) {
  Found found = find(node_data, step_or_folder);
  const RunState& run = found.facts.run;
  add_kernels_of_plan(found, node_data);
  check_model(found, task);
  check_optimizer(found.facts.settings, task.settings);
  going_on(run, task.settings, 1, task.data.train_samples);  // whatever the steps of the plan will be
  bring(found.files, node_data, run.step);
  task.resume = {
      .plan_id = found.files.plan_id, .stages = static_cast<int>(found.files.parts.size()), .step = run.step};
  std::vector<std::string> lines{fmt::format("Goes on after step {}, in epoch {} of {}.", run.step,
                                             std::min<std::int64_t>(run.epoch + 1, task.settings.epochs),
                                             task.settings.epochs)};
  if (!found.files.is_complete()) {
    lines.push_back(
        fmt::format("{} has the checkpoint of {}: the providers take what they lack from those that have it",
                    found.files.folder.string(), found.files.stages_text(true)));
  }
  std::ranges::move(changes(found.facts.settings, task.settings), std::back_inserter(lines));
  take_kernels(task, found, lines);
  return {.run = run, .lines = std::move(lines)};
}

void keep_micro_batches(TrainingSettings& settings, const std::filesystem::path& node_data,
                        const std::string& step_or_folder) {
  if (settings.micro_batches) return;
  const TrainingSettings before = find(node_data, step_or_folder).facts.settings;
  if (before.batch_size == settings.batch_size && is_synchronous(before.schedule))
    settings.micro_batches = before.micro_batches;
}

void check_place(const RunState& run, const TrainingTask& task, const ClusterPlan& plan) {
  going_on(run, task.settings, shares_of(plan, 0).joint(), task.data.train_samples);
}

}  // namespace rookery
