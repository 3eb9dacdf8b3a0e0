#include "trainer/checkpoint/reshard.hpp"

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
#include "trainer/checkpoint/checkpoint_part.hpp"
#include "trainer/checkpoint/checkpoint_schedule.hpp"

namespace rookery {
namespace {

// Bytes of any number as messages that are small enough for every plan. A name is used once between two
// stages.
class Pieces {
 public:
  explicit Pieces(Link& link) : link_(link) {}

  void send(int to, const std::string& name, std::span<const std::byte> bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += kCheckpointPieceBytes) {
      const auto piece = bytes.subspan(at, std::min<std::size_t>(kCheckpointPieceBytes, bytes.size() - at));
      link_.send(to, key(name, at), {type_of(piece.size()), piece.data()});
    }
  }
  void receive(int from, const std::string& name, std::span<std::byte> bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += kCheckpointPieceBytes) {
      const auto piece = bytes.subspan(at, std::min<std::size_t>(kCheckpointPieceBytes, bytes.size() - at));
      link_.receive(from, key(name, at), {type_of(piece.size()), piece.data()});
    }
  }

  void send_text(int to, const std::string& name, const std::string& text) {
    send_number(link_, to, length_key(name), static_cast<double>(text.size()));
    send(to, name, std::as_bytes(std::span(text)));
  }
  std::string receive_text(int from, const std::string& name) {
    constexpr double kLongest = 1U << 30;
    const double length = receive_number(link_, from, length_key(name));
    if (!(length >= 0 && length <= kLongest))
      throw TransportError(fmt::format("receive {} from stage {}: it has {} bytes", name, from, length));
    std::string text(static_cast<std::size_t>(length), ' ');
    receive(from, name, std::as_writable_bytes(std::span(text)));
    return text;
  }

 private:
  static TensorType type_of(std::size_t bytes) {
    return {DType::kU8, Shape{static_cast<std::int64_t>(bytes)}};
  }
  static MessageKey key(const std::string& name, std::size_t at) {
    return {.kind = MessageKind::kCheckpoint,
            .micro_batch = static_cast<std::int32_t>(at / kCheckpointPieceBytes),
            .edge = name};
  }
  static MessageKey length_key(const std::string& name) {
    return {.kind = MessageKind::kCheckpoint, .edge = "length of " + name};
  }

  Link& link_;
};

// Which parts lie on the stages' machines: by step, by stage of the present plan.
using Holdings = std::map<std::int64_t, std::vector<std::set<int>>>;

bool is_whole(const std::vector<std::set<int>>& of_stages, int parts) {
  std::set<int> all;
  for (const std::set<int>& own : of_stages) all.insert(own.begin(), own.end());
  return static_cast<int>(all.size()) == parts;
}

class Resharding {
 public:
  Resharding(const std::filesystem::path& node_data, const ResumePoint& from, Executable& executable,
             Link& link)
      : node_data_(node_data),
        from_(from),
        stage_(executable.stage().index),
        stages_(executable.stage().count),
        sees_samples_(executable.stage().is_root() || executable.stage().is_leaf()),
        link_(link),
        pieces_(link),
        state_(executable.training_state()) {}

  RunState run() {
    std::int64_t at_most = from_.step;
    for (int round = 0;; ++round) {
      const Holdings holdings = all_holdings(at_most, round);
      const auto newest = std::ranges::find_if(holdings.rbegin(), holdings.rend(), [&](const auto& entry) {
        return is_whole(entry.second, from_.stages);
      });
      if (newest == holdings.rend()) throw DataError(none_text(holdings, round));
      std::tie(step_, held_) = *newest;
      if (round == 0 && step_ < at_most)
        spdlog::warn("the checkpoint of step {} is not whole: that of step {} is taken", at_most, step_);
      const std::int64_t is_read = read_own() ? 1 : 0;
      if (least_of_all(link_, stage_, stages_, round, "parts that are read", is_read) == 1) return fetch();
      at_most = step_ - 1;
    }
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  CheckpointOwner owner(int part) const {
    return {.node_data = node_data_, .plan_id = from_.plan_id, .stage = part, .stages = from_.stages};
  }
  std::filesystem::path path(int part) const { return part_path(owner(part), step_); }

  bool is_on_all(int part) const {
    return std::ranges::all_of(held_, [&](const auto& own) { return own.contains(part); });
  }
  // The stage that gives this part to those that have it not.
  int holder(int part) const {
    const auto found = std::ranges::find_if(held_, [&](const auto& own) { return own.contains(part); });
    return static_cast<int>(found - held_.begin());
  }

  // Those of this machine, by their names.
  std::map<std::int64_t, std::set<int>> own_holdings(std::int64_t at_most) const {
    std::map<std::int64_t, std::set<int>> own;
    for (int part = 0; part < from_.stages; ++part) {
      for (const std::int64_t step : part_steps(owner(part)))
        if (step <= at_most) own[step].insert(part);
    }
    return own;
  }

  // The Root gathers them, and tells all.
  Holdings all_holdings(std::int64_t at_most, int round) {
    const std::string name = fmt::format("parts in round {}", round);
    const std::string own = Json(own_holdings(at_most)).dump();
    if (stage_ != 0) {
      pieces_.send_text(0, name, own);
      return from_text<Holdings>(pieces_.receive_text(0, name));
    }
    Holdings all;
    for (int stage = 0; stage < stages_; ++stage) {
      const std::string text = stage == 0 ? own : pieces_.receive_text(stage, name);
      for (const auto& [step, parts] : from_text<std::map<std::int64_t, std::set<int>>>(text)) {
        all[step].resize(at(stages_));
        all[step][at(stage)] = parts;
      }
    }
    for (int stage = 1; stage < stages_; ++stage) pieces_.send_text(stage, name, Json(all).dump());
    return all;
  }

  std::string none_text(const Holdings& holdings, int round) const {
    std::set<int> missing;
    for (int part = 0; part < from_.stages; ++part) missing.insert(part);
    if (!holdings.empty()) {
      for (const std::set<int>& own : holdings.rbegin()->second)
        for (const int part : own) missing.erase(part);
    }
    if (round > 0 || missing.empty()) {
      return fmt::format(
          "the checkpoint of step {} of plan {} and all before it are damaged: plan another one with "
          "clusterize --resume STEP",
          from_.step, from_.plan_id);
    }
    return fmt::format(
        "no node of this plan has the part of stage {} of {} of the checkpoint of step {} of plan {}: copy "
        "it from the machine that trained it, to {}",
        fmt::join(missing, ", "), from_.stages, holdings.empty() ? from_.step : holdings.rbegin()->first,
        from_.plan_id, checkpoints_folder(node_data_).string());
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
  Link& link_;
  Pieces pieces_;
  const std::map<std::string, TensorView> state_;
  std::set<std::string> left_;  // of its names, those not taken yet
  // The checkpoint that is tried, and which of its parts each stage has.
  std::int64_t step_ = 0;
  std::vector<std::set<int>> held_;
  RunState run_;
};

}  // namespace

RunState reshard(const std::filesystem::path& node_data, const ResumePoint& from, Executable& executable,
                 Link& link) {
  return Resharding(node_data, from, executable, link).run();
}

}  // namespace rookery
