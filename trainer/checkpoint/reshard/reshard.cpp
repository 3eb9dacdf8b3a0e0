#include "trainer/checkpoint/reshard/reshard.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/files/json_file.hpp"
#include "trainer/checkpoint/reshard/part_relay.hpp"
#include "trainer/checkpoint/reshard/pieces.hpp"

namespace rookery {
namespace {

using Parts = std::set<int>;  // by the stages that wrote them
using PartsOfSteps = std::map<std::int64_t, Parts>;

// Which parts lie where.
struct Holdings {
  std::map<std::int64_t, std::vector<Parts>>
      stages;                          // by step, by stage of the present plan: in this cluster
  std::vector<PartsOfSteps> clusters;  // by cluster: on any of its machines
  int cluster = 0;                     // this one

  // On any machine at all.
  PartsOfSteps all() const {
    PartsOfSteps all;
    for (const PartsOfSteps& of_cluster : clusters)
      for (const auto& [step, parts] : of_cluster) all[step].insert(parts.begin(), parts.end());
    return all;
  }
};

class Resharding {
 public:
  Resharding(const std::filesystem::path& node_data, const ResumePoint& from, Executable& executable,
             const Agreement& agreement, const std::map<std::string, TensorView>& averaging)
      : node_data_(node_data),
        from_(from),
        stage_(agreement.stage()),
        stages_(agreement.stages()),
        sees_samples_(executable.stage().is_root() || executable.stage().is_leaf()),
        agreement_(agreement),
        pieces_(agreement.link()),
        averaging_(averaging),
        state_(merged(executable.training_state(), averaging)) {}

  RunState run() {
    std::int64_t at_most = from_.step;
    for (int round = 0;; ++round) {
      const Holdings holdings = all_holdings(at_most, round);
      const PartsOfSteps all = holdings.all();
      const auto newest = std::ranges::find_if(all.rbegin(), all.rend(), [&](const auto& entry) {
        return std::ssize(entry.second) == from_.stages;
      });
      if (newest == all.rend()) throw DataError(none_text(all, round));
      step_ = newest->first;
      if (round == 0 && step_ < at_most)
        spdlog::warn("the checkpoint of step {} is not whole: that of step {} is taken", at_most, step_);
      hold(holdings, round);
      const std::int64_t is_read = read_own() ? 1 : 0;
      if (agreement_.least_of_all(round, "parts that are read", is_read) == 1) return fetch();
      at_most = step_ - 1;
    }
  }

 private:
  static std::map<std::string, TensorView> merged(std::map<std::string, TensorView> one,
                                                  const std::map<std::string, TensorView>& other) {
    one.insert(other.begin(), other.end());
    return one;
  }
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  CheckpointOwner owner(int part) const {
    return {.node_data = node_data_,
            .plan_id = from_.plan_id,
            .stage = part,
            .stages = from_.stages,
            .cluster = from_.cluster};
  }
  std::filesystem::path path(int part) const { return part_path(owner(part), step_); }

  bool is_on_all(int part) const {
    return std::ranges::all_of(held_, [&](const auto& own) { return own.contains(part); });
  }
  // The stage that gives this part to those that have it not; the number of stages where none has.
  int holder(int part) const {
    const auto found = std::ranges::find_if(held_, [&](const Parts& own) { return own.contains(part); });
    return static_cast<int>(found - held_.begin());
  }

  // Those of this machine, by their names.
  PartsOfSteps own_holdings(std::int64_t at_most) const {
    PartsOfSteps own;
    for (int part = 0; part < from_.stages; ++part) {
      for (const std::int64_t step : part_steps(owner(part)))
        if (step <= at_most) own[step].insert(part);
    }
    return own;
  }

  // The Roots gather them, and tell all.
  Holdings all_holdings(std::int64_t at_most, int round) {
    const std::string name = fmt::format("parts in round {}", round);
    const std::string own = Json(own_holdings(at_most)).dump();
    Holdings all;
    if (stage_ != 0) {
      pieces_.send_text(0, name, own);
      std::tie(all.stages, all.clusters, all.cluster) =
          from_text<std::tuple<decltype(all.stages), decltype(all.clusters), int>>(
              pieces_.receive_text(0, name));
      return all;
    }
    PartsOfSteps here;
    for (int stage = 0; stage < stages_; ++stage) {
      const std::string text = stage == 0 ? own : pieces_.receive_text(stage, name);
      for (const auto& [step, parts] : from_text<PartsOfSteps>(text)) {
        all.stages[step].resize(at(stages_));
        all.stages[step][at(stage)] = parts;
        here[step].insert(parts.begin(), parts.end());
      }
    }
    for (const std::string& text : texts_of_clusters(name, Json(here).dump()))
      all.clusters.push_back(from_text<PartsOfSteps>(text));
    if (agreement_.roots() != nullptr) all.cluster = agreement_.roots()->cluster();
    const std::string told = Json(std::tuple(all.stages, all.clusters, all.cluster)).dump();
    for (int stage = 1; stage < stages_; ++stage) pieces_.send_text(stage, name, told);
    return all;
  }

  // By cluster what its Root has: in each round every Root hands on what it got in the round before.
  std::vector<std::string> texts_of_clusters(const std::string& name, const std::string& own) const {
    const ClusterRoots* roots = agreement_.roots();
    if (roots == nullptr) return {own};
    const int clusters = roots->clusters();
    Pieces ring(roots->link());
    std::vector<std::string> texts(at(clusters));
    texts[at(roots->cluster())] = own;
    for (int round = 1; round < clusters; ++round) {
      const std::string key = fmt::format("{}, {}", name, round);
      ring.send_text(roots->next(), key, texts[at((roots->cluster() - round + 1 + clusters) % clusters)]);
      texts[at((roots->cluster() - round + clusters) % clusters)] = ring.receive_text(roots->before(), key);
    }
    return texts;
  }

  // Which parts of the checkpoint that is tried each stage has, once the Root has taken those that no machine
  // of its cluster has from another cluster.
  void hold(const Holdings& holdings, int round) {
    const auto of_step = holdings.stages.find(step_);
    held_ = of_step != holdings.stages.end() ? of_step->second : std::vector<Parts>(at(stages_));
    for (int part = 0; part < from_.stages; ++part) {
      PartRoute route{.path = path(part),
                      .name = fmt::format("file of part {} in round {}", part, round),
                      .cluster = holdings.cluster};
      for (const PartsOfSteps& of_cluster : holdings.clusters) {
        const auto found = of_cluster.find(step_);
        route.lacks.push_back(found == of_cluster.end() || !found->second.contains(part));
      }
      if (const int stage = holder(part); stage < stages_) route.holder = stage;
      relay_part(route, agreement_);
      if (!route.holder) held_.front().insert(part);
    }
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
        checkpoints_folder(node_data_).string());
  }

  // Takes what the own parts have. False where one is damaged, which the log tells.
  bool read_own() {
    left_.clear();
    for (const auto& [name, view] : state_) left_.insert(name);
    try {
      for (const int number : held_[at(stage_)]) {
        PartReader part(path(number));
        if (holder(number) == stage_ && !is_on_all(number)) part.tensors().check_all();
        if (number == from_.stages - 1) run_ = part.facts().run;
        for (const std::string& name : wanted(part.tensors())) take(name, part.tensors().read(name));
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
    std::ranges::copy_if(left_, std::back_inserter(names),
                         [&](const std::string& name) { return part.types().contains(name); });
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

  // Part by part, from the first stage that has it to each that has not: the same order on all stages, so
  // that no two wait for each other.
  RunState fetch() {
    for (int part = 0; part < from_.stages; ++part) {
      for (int stage = 0; stage < stages_; ++stage) {
        if (held_[at(stage)].contains(part)) continue;
        if (stage_ == holder(part)) give(part, stage);
        if (stage_ == stage) ask(part);
      }
    }
    std::erase_if(left_, [&](const std::string& name) { return averaging_.contains(name); });
    if (!left_.empty()) {
      throw DataError(
          fmt::format("the checkpoint of step {} of plan {} has no {}: it is of another model or optimizer",
                      step_, from_.plan_id, *left_.begin()));
    }
    if (!sees_samples_) run_.sample_digest = 0;
    return run_;
  }

  void give(int number, int to) {
    const std::string name = fmt::format("part {}", number);
    PartReader part(path(number));
    const Json request = Json::parse(pieces_.receive_text(to, "request for " + name));
    Json offer{{"run", to_text(part.facts().run)}, {"tensors", Json::object()}};
    for (const std::string& tensor : request.get<std::vector<std::string>>())
      if (part.tensors().types().contains(tensor))
        offer["tensors"][tensor] = part.tensors().checksum_of(tensor);
    pieces_.send_text(to, name, offer.dump());
    for (const auto& [tensor, checksum] : offer["tensors"].items()) {
      const Tensor read = part.tensors().read(tensor);
      pieces_.send_text(to, "type of " + tensor, read.type().to_string());
      pieces_.send(to, tensor, read.view().bytes());
    }
  }

  void ask(int number) {
    const int from = holder(number);
    const std::string name = fmt::format("part {}", number);
    pieces_.send_text(from, "request for " + name, Json(left_).dump());
    const Json offer = Json::parse(pieces_.receive_text(from, name));
    if (number == from_.stages - 1) run_ = run_state_from(offer.at("run").get<std::string>());
    for (const auto& [tensor, checksum_there] : offer.at("tensors").items()) {
      const TensorView& into = state_.at(tensor);
      const std::string type = pieces_.receive_text(from, "type of " + tensor);
      if (type != into.type.to_string()) {
        throw DataError(
            fmt::format("{} is of type {} on stage {} and {} here: the checkpoint is of another model",
                        tensor, type, from, into.type.to_string()));
      }
      Tensor received(into.type);
      pieces_.receive(from, tensor, received.view().bytes());
      if (checksum(std::as_const(received).view()) != checksum_there)
        throw DataError(fmt::format("{} came damaged from stage {}: its checksum differs", tensor, from));
      take(tensor, received);
    }
  }

  template <typename T>
  static T from_text(const std::string& text) {
    try {
      return Json::parse(text).get<T>();
    } catch (const Json::exception& error) {
      throw TransportError(
          fmt::format("what another stage says of its checkpoints cannot be read: {}", error.what()));
    }
  }

  const std::filesystem::path& node_data_;
  const ResumePoint& from_;
  const int stage_, stages_;
  const bool sees_samples_;
  Agreement agreement_;
  Pieces pieces_;
  const std::map<std::string, TensorView>& averaging_;
  const std::map<std::string, TensorView> state_;
  std::set<std::string> left_;  // of its names, those not taken yet
  // The checkpoint that is tried, and which of its parts each stage has.
  std::int64_t step_ = 0;
  std::vector<Parts> held_;
  RunState run_;
};

}  // namespace

RunState reshard(const std::filesystem::path& node_data, const ResumePoint& from, Executable& executable,
                 const Agreement& agreement, const std::map<std::string, TensorView>& averaging) {
  return Resharding(node_data, from, executable, agreement, averaging).run();
}

std::optional<ResumePoint> newest_of_a_cluster(const CheckpointOwner& owner, const Agreement& agreement) {
  constexpr std::int64_t kNone = -1;
  Agreement own(agreement.link(), agreement.stage(), agreement.stages());
  const std::vector<std::int64_t> steps = part_steps(owner);
  std::int64_t step =
      own.least_of_all(0, "newest checkpoint of the cluster", steps.empty() ? kNone : steps.back());
  std::int64_t cluster = owner.cluster;
  std::int64_t stages = owner.stages;
  if (ClusterRoots* roots = agreement.roots(); roots != nullptr) {
    const auto all = roots->gather(0, "newest checkpoint of a cluster",
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
