#include "trainer/checkpoint/reshard/state_routes.hpp"

#include <algorithm>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"

namespace rookery {
namespace {

using Types = std::map<std::string, NodeState::Type>;

nlohmann::json types_to_json(const Types& types) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, type] : types) json[name] = {type.text, type.bytes};
  return json;
}

Types types_from(const nlohmann::json& json) {
  Types types;
  for (const auto& [name, type] : json.get<std::map<std::string, nlohmann::json>>())
    types[name] = {type.at(0).get<std::string>(), integer_from<std::uint64_t>(type.at(1))};
  return types;
}

std::string to_text(NodePlace node) {
  return fmt::format("stage {} of cluster {}", node.stage, node.cluster);
}

// Who has a tensor, by cluster: the first stage.
std::vector<std::map<std::string, int>> givers_of(const OfNodes<NodeState>& nodes) {
  std::vector<std::map<std::string, int>> givers;
  for (const auto& cluster : nodes) {
    auto& of_cluster = givers.emplace_back();
    for (std::size_t stage = 0; stage < cluster.size(); ++stage)
      for (const auto& [name, type] : cluster[stage].has) of_cluster.emplace(name, static_cast<int>(stage));
  }
  return givers;
}

void check_range(const StateRange& range, const Types& lacks, const NodeState::Type& held, NodePlace giver,
                 NodePlace taker) {
  const auto wanted = lacks.find(range.name);
  if (wanted == lacks.end() || wanted->second.text != held.text) {
    throw DataError(fmt::format("{} is of type {} on {} and of {} on {}: these are not of one model",
                                range.name, held.text, to_text(giver),
                                wanted == lacks.end() ? "none" : wanted->second.text, to_text(taker)));
  }
  const bool is_inside = range.begin <= held.bytes && range.bytes <= held.bytes - range.begin;
  if (is_inside && range.bytes > 0 && range.bytes <= kMostOfRange) return;
  throw TransportError(
      fmt::format("{} asks for {} bytes of {} from byte {} on, which has {}: a range has {} bytes at most",
                  to_text(taker), range.bytes, range.name, range.begin, held.bytes, kMostOfRange));
}

}  // namespace

std::vector<StateRange> ranges_of(const std::string& name, std::uint64_t bytes) {
  std::vector<StateRange> ranges;
  for (std::uint64_t begin = 0; begin < bytes; begin += kMostOfRange)
    ranges.push_back({.name = name, .begin = begin, .bytes = std::min(kMostOfRange, bytes - begin)});
  return ranges;
}

void NodeState::add_to_has(const std::string& name, const TensorType& type) {
  has[name] = {type.to_string(), type.bytes()};
}

void NodeState::add_to_wants(const std::string& name, const TensorType& type) {
  lacks[name] = {type.to_string(), type.bytes()};
  std::ranges::move(ranges_of(name, type.bytes()), std::back_inserter(wants));
}

void to_json(nlohmann::json& json, const NodeState& state) {
  json = {{"has", types_to_json(state.has)}, {"lacks", types_to_json(state.lacks)}};
  json["wants"] = nlohmann::json::array();
  for (const StateRange& range : state.wants) json["wants"].push_back({range.name, range.begin, range.bytes});
  if (state.from) json["from"] = *state.from;
}

void from_json(const nlohmann::json& json, NodeState& state) {
  state.has = types_from(json.at("has"));
  state.lacks = types_from(json.at("lacks"));
  for (const nlohmann::json& range : json.at("wants").get<std::vector<nlohmann::json>>())
    state.wants.push_back({.name = range.at(0).get<std::string>(),
                           .begin = integer_from<std::uint64_t>(range.at(1)),
                           .bytes = integer_from<std::uint64_t>(range.at(2))});
  if (json.contains("from")) state.from = integer_from<int>(json["from"]);
}

std::vector<StateRoute> state_routes(const OfNodes<NodeState>& nodes) {
  const auto givers = givers_of(nodes);
  const auto clusters = static_cast<int>(nodes.size());
  const auto find_giver = [&](const std::string& name, int taker,
                              const std::optional<int>& only) -> std::optional<NodePlace> {
    // The taker's own cluster comes first, then all from cluster 0 on.
    for (int i = only ? 0 : -1; i < clusters; ++i) {
      const int cluster = i < 0 ? taker : i;
      if (only && cluster != *only) continue;
      const auto& of_cluster = givers[cluster];
      if (const auto found = of_cluster.find(name); found != of_cluster.end())
        return NodePlace{.cluster = cluster, .stage = found->second};
    }
    return std::nullopt;
  };
  std::map<std::pair<StateRange, NodePlace>, std::vector<NodePlace>> takers;
  for (int cluster = 0; cluster < clusters; ++cluster) {
    const auto& of_cluster = nodes[cluster];
    for (std::size_t stage = 0; stage < of_cluster.size(); ++stage) {
      const NodeState& state = of_cluster[stage];
      const NodePlace taker{.cluster = cluster, .stage = static_cast<int>(stage)};
      for (const StateRange& range : state.wants) {
        const auto giver = find_giver(range.name, cluster, state.from);
        if (!giver) continue;
        const NodeState& gives = nodes[giver->cluster][giver->stage];
        check_range(range, state.lacks, gives.has.at(range.name), *giver, taker);
        takers[{range, *giver}].push_back(taker);
      }
    }
  }
  std::vector<StateRoute> routes;
  for (auto& [of, to] : takers) routes.push_back({.range = of.first, .from = of.second, .to = std::move(to)});
  return routes;
}

RouteHop hop_of(const StateRoute& route, NodePlace node, int clusters) {
  const auto distance = [&](int cluster) { return (cluster - route.from.cluster + clusters) % clusters; };
  int last = 0;  // cluster that it goes to, as far behind the first
  for (const NodePlace& to : route.to) last = std::max(last, distance(to.cluster));
  const int own = distance(node.cluster);
  const bool is_giver = node == route.from;
  const bool is_taker = std::ranges::find(route.to, node) != route.to.end();
  const bool hands_on = node.stage == 0 && last > 0 && own <= last;  // as a Root

  RouteHop hop;
  if (!is_giver && own == 0 && (is_taker || hands_on))
    hop.from = {.is_root = false, .rank = route.from.stage};
  if (own > 0 && hands_on) hop.from = {.is_root = true, .rank = (node.cluster + clusters - 1) % clusters};
  if (own > 0 && is_taker && node.stage != 0) hop.from = {.is_root = false, .rank = 0};

  if (hands_on && own < last) hop.to.push_back({.is_root = true, .rank = (node.cluster + 1) % clusters});
  const bool gives_to_stages = is_giver || (own > 0 && hands_on);
  if (!gives_to_stages) return hop;
  if (is_giver && last > 0 && node.stage != 0) hop.to.push_back({.is_root = false, .rank = 0});
  for (const NodePlace& to : route.to) {
    const RouteHop::Peer peer{.is_root = false, .rank = to.stage};
    if (to.cluster == node.cluster && to != node && std::ranges::find(hop.to, peer) == hop.to.end())
      hop.to.push_back(peer);
  }
  return hop;
}

}  // namespace rookery
