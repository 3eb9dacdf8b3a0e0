#include "trainer/checkpoint/reshard/reshard.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/checkpoint/reshard/state_transfer.hpp"
#include "trainer/checkpoint/reshard/told_by_all.hpp"

namespace rookery {
namespace {

using Parts = std::set<int>;  // by the stages that wrote them
struct PartsOfSteps : std::map<std::int64_t, Parts> {};

void to_json(nlohmann::json& json, const PartsOfSteps& parts) {
  json = static_cast<const std::map<std::int64_t, Parts>&>(parts);
}

void from_json(const nlohmann::json& json, PartsOfSteps& parts) {
  for (const nlohmann::json& step : json.get<std::vector<nlohmann::json>>()) {
    for (const nlohmann::json& part : step.at(1).get<std::vector<nlohmann::json>>())
      parts[integer_from<std::int64_t>(step.at(0))].insert(integer_from<int>(part));
  }
}

class Resharding {
 public:
  Resharding(const ResumePoint& from, const ReshardedNode& node, const Agreement& agreement)
      : from_(from), node_(node), agreement_(agreement), state_(node.needs) {
    state_.insert(node.may_have.begin(), node.may_have.end());
  }

  RunState run() {
    std::int64_t at_most = from_.step;
    for (int round = 0;; ++round) {
      const auto told =
          told_by_all_as(agreement_, fmt::format("parts of checkpoints, round {}", round), own(at_most));
      const PartsOfSteps all = joined(told);
      const auto newest = std::ranges::find_if(all.rbegin(), all.rend(), [&](const auto& entry) {
        return std::ssize(entry.second) == from_.stages;
      });
      if (newest == all.rend()) throw DataError(none_text(all, round));
      step_ = newest->first;
      if (round == 0 && step_ < at_most)
        spdlog::warn("the checkpoint of step {} is not whole: that of step {} is taken", at_most, step_);
      hold(told);
      const std::int64_t is_read = read_own() ? 1 : 0;
      if (agreement_.least_of_all(round, "parts that are read", is_read) == 1) return take_rest();
      at_most = step_ - 1;
    }
  }

 private:
  CheckpointOwner owner(int part) const {
    return {.node_data = node_.node_data,
            .plan_id = from_.plan_id,
            .stage = part,
            .stages = from_.stages,
            .cluster = from_.cluster};
  }

  // The parts of this machine, by their names.
  PartsOfSteps own(std::int64_t at_most) const {
    PartsOfSteps own;
    for (int part = 0; part < from_.stages; ++part) {
      for (const std::int64_t step : part_steps(owner(part)))
        if (step <= at_most) own[step].insert(part);
    }
    return own;
  }

  // On any machine at all.
  static PartsOfSteps joined(const OfNodes<PartsOfSteps>& told) {
    PartsOfSteps all;
    for (const auto& cluster : told)
      for (const PartsOfSteps& of_node : cluster)
        for (const auto& [step, parts] : of_node) all[step].insert(parts.begin(), parts.end());
    return all;
  }

  // Who has which part of the checkpoint that is tried.
  void hold(const OfNodes<PartsOfSteps>& told) {
    held_.clear();
    for (const auto& cluster : told) {
      std::vector<Parts>& of_cluster = held_.emplace_back();
      for (const PartsOfSteps& of_node : cluster) {
        const auto found = of_node.find(step_);
        of_cluster.push_back(found == of_node.end() ? Parts() : found->second);
      }
    }
  }

  const std::vector<Parts>& held_in_cluster() const { return held_.at(at(node_.cluster)); }
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  // Whether others are sent what they need of the part by this node, as state_routes() chooses them.
  bool gives(int part) const {
    const auto has = [part](const Parts& parts) { return parts.contains(part); };
    const std::vector<Parts>& own = held_in_cluster();
    if (std::ranges::find_if(own, has) - own.begin() != agreement_.stage()) return false;
    if (!std::ranges::all_of(own, has)) return true;
    const auto is_in = [&](const std::vector<Parts>& cluster) { return std::ranges::any_of(cluster, has); };
    return std::ranges::find_if(held_, is_in) - held_.begin() == node_.cluster &&
           !std::ranges::all_of(held_, is_in);
  }

  // `all`: what any machine has.
  std::string none_text(const PartsOfSteps& all, int round) const {
    Parts missing;
    for (int part = 0; part < from_.stages; ++part)
      if (all.empty() || !all.rbegin()->second.contains(part)) missing.insert(part);
    if (round > 0 || missing.empty()) {
      return fmt::format(
          "the checkpoint of step {} of plan {} and all before it are damaged: plan another one with "
          "clusterize --resume STEP",
          from_.step, from_.plan_id);
    }
    return fmt::format(
        "no node of this plan has the part of stage {} of {} of the checkpoint of step {} of plan {}: copy "
        "it from the machine that trained it, to {}",
        fmt::join(missing, ", "), from_.stages, all.empty() ? from_.step : all.rbegin()->first, from_.plan_id,
        checkpoints_folder(node_.node_data).string());
  }

  // Takes what the own parts have. False where one is damaged, which the log tells.
  bool read_own() {
    left_.clear();
    given_.clear();
    run_.reset();
    for (const auto& [name, view] : state_) left_[name] = view.type.bytes();
    try {
      for (const int number : held_in_cluster().at(at(agreement_.stage()))) {
        PartReader part(part_path(owner(number), step_));
        if (number == from_.stages - 1) run_ = part.facts().run;
        for (const std::string& name : wanted(part.tensors())) take(name, part.tensors().read(name));
        if (!gives(number)) continue;
        part.tensors().check_all();
        given_.push_back(std::move(part));
      }
      return true;
    } catch (const DataError& error) {
      spdlog::warn("the checkpoint of step {} cannot be used: {}: the one before is taken", step_,
                   error.what());
      return false;
    }
  }

  // Those of `left_` that it has.
  std::vector<std::string> wanted(const CheckedReader& part) const {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : left_)
      if (part.types().contains(name)) names.push_back(name);
    return names;
  }

  void take(const std::string& name, const Tensor& tensor) {
    const TensorView& into = state_.at(name);
    if (tensor.type() != into.type) {
      throw DataError(fmt::format("{} is of type {} there and {} here: the checkpoint is of another model",
                                  name, tensor.type().to_string(), into.type.to_string()));
    }
    copy(tensor.view(), into);
    left_.erase(name);
  }

  RunState take_rest() {
    NodeState state;
    for (const PartReader& part : given_)
      for (const auto& [name, type] : part.tensors().types()) state.add_to_has(name, type);
    for (const auto& [name, bytes] : left_) state.add_to_wants(name, state_.at(name).type);
    transfer_state("checkpoint", state, node_.cluster, agreement_,
                   {.read = [&](const StateRange& range, auto into) { read(range, into); },
                    .write =
                        [&](const StateRange& range, auto bytes) {
                          write_range(state_.at(range.name), range, bytes);
                          if ((left_.at(range.name) -= range.bytes) == 0) left_.erase(range.name);
                        }});
    for (const auto& [name, view] : node_.may_have) left_.erase(name);
    if (!left_.empty()) {
      throw DataError(
          fmt::format("the checkpoint of step {} of plan {} has no {}: it is of another model or optimizer",
                      step_, from_.plan_id, left_.begin()->first));
    }
    RunState run = told_run();
    if (!node_.sees_samples) run.sample_digest = 0;
    return run;
  }

  // Ranges of a tensor come one after the other; it is read once.
  void read(const StateRange& range, std::span<std::byte> into) {
    if (reading_.first != range.name) {
      const auto part = std::ranges::find_if(
          given_, [&](const PartReader& each) { return each.tensors().types().contains(range.name); });
      reading_ = {range.name, part->tensors().read(range.name)};
    }
    read_range(std::as_const(reading_.second).view(), range, into);
  }

  // As the last part says, which some node has.
  RunState told_run() const {
    const auto told =
        told_by_all_as(agreement_, "run of the checkpoint", run_ ? to_text(*run_) : std::string());
    for (const auto& cluster : told)
      for (const std::string& text : cluster)
        if (!text.empty()) return run_state_from(text);
    throw TransportError("nobody tells of the run of the checkpoint");
  }

  const ResumePoint& from_;
  const ReshardedNode& node_;
  Agreement agreement_;
  std::map<std::string, TensorView> state_;
  std::map<std::string, std::uint64_t> left_;  // of its tensors, bytes that were not taken yet
  // The checkpoint that is tried, and which of its parts each stage has, by cluster.
  std::int64_t step_ = 0;
  std::vector<std::vector<Parts>> held_;
  std::vector<PartReader> given_;           // to others
  std::pair<std::string, Tensor> reading_;  // of these
  std::optional<RunState> run_;             // where the last part is here
};

}  // namespace

RunState reshard(const ResumePoint& from, const ReshardedNode& node, const Agreement& agreement) {
  return Resharding(from, node, agreement).run();
}

std::optional<ResumePoint> newest_of_a_cluster(const CheckpointOwner& owner, const Agreement& agreement,
                                               bool offers_own) {
  constexpr std::int64_t kNone = -1;
  Agreement own(agreement.link(), agreement.stage(), agreement.stages());
  const std::vector<std::int64_t> steps = part_steps(owner);
  std::int64_t step = own.least_of_all(0, "newest checkpoint of the cluster",
                                       steps.empty() || !offers_own ? kNone : steps.back());
  std::int64_t cluster = owner.cluster;
  std::int64_t stages = owner.stages;
  if (ClusterRoots* roots = agreement.roots(); roots != nullptr) {
    const auto all = roots->all_gather(0, "newest checkpoint of a cluster",
                                       {static_cast<double>(step), static_cast<double>(stages)});
    const auto newest = std::ranges::max_element(all, {}, [](const auto& numbers) { return numbers[0]; });
    cluster = newest - all.begin();
    step = static_cast<std::int64_t>((*newest)[0]);
    stages = static_cast<std::int64_t>((*newest)[1]);
  }
  step = own.told_by_root(0, "step of that checkpoint", step);
  cluster = own.told_by_root(0, "cluster of that checkpoint", cluster);
  stages = own.told_by_root(0, "parts of that checkpoint", stages);
  if (step == kNone) return std::nullopt;
  return ResumePoint{.plan_id = owner.plan_id,
                     .stages = static_cast<int>(stages),
                     .step = step,
                     .cluster = static_cast<int>(cluster)};
}

}  // namespace rookery
