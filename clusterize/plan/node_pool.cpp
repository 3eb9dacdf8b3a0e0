#include "clusterize/plan/node_pool.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "clusterize/plan/address.hpp"
#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

// Where the pool says nothing of a link. Between machines, a wired local network: as good as their
// connections.
constexpr double kAssumedLatencyMs = 0.5;
// Between nodes on one machine, that share no connection: from one provider's arithmetic to the other's.
constexpr LinkSpeed kOnOneMachine{.latency_ms = 0.1, .bandwidth_mbps = 10'000};

// The host of an address; one name for all that mean the machine itself.
std::string host_of(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  return host == "0.0.0.0" || host == "localhost" || host.starts_with("127.") ? "localhost" : host;
}

// Limits that catch a wrong unit, far above any machine.
constexpr double kMaxRamGb = 1e6;
constexpr double kMaxBandwidthMbps = 1e7;
constexpr double kMaxGflops = 1e9;
constexpr double kMaxTransferGbps = 1e5;
constexpr double kMaxLatencyMs = 60e3;
constexpr std::int64_t kMaxNodeId = 999'999;

// The pool with the nodes gathered under one key, so that places read nodes/1/benchmarks/ram.
const Json& pool_schema() {
  static const Json schema = Json::parse(R"({
    "type": "object",
    "properties": {
      "nodes": {"type": "object", "minProperties": 1, "additionalProperties": {
        "type": "object", "required": ["IP", "benchmarks"],
        "properties": {
          "IP": {"type": "string"},
          "region": {"type": "string"},
          "benchmarks": {"type": "object", "required": ["ram", "bandwidth"], "properties": {
            "ram": {"type": "number"}, "bandwidth": {"type": "number"}, "gflops": {"type": "number"},
            "transfer_gbps": {"type": "number"}}}}}},
      "network": {"type": "object", "properties": {
        "default": {"$ref": "#/definitions/speed"},
        "regions": {"type": "array", "items": {"$ref": "#/definitions/pair"}},
        "links": {"type": "array", "items": {"$ref": "#/definitions/pair"}}}}},
    "definitions": {
      "speed": {"type": "object", "required": ["latency_ms", "bandwidth_mbps"], "properties": {
        "latency_ms": {"type": "number"}, "bandwidth_mbps": {"type": "number"}}},
      "pair": {"type": "object", "required": ["between", "latency_ms", "bandwidth_mbps"], "properties": {
        "between": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "string"}},
        "latency_ms": {"type": "number"}, "bandwidth_mbps": {"type": "number"}}}}
  })");
  return schema;
}

// One place of the document, for messages.
struct Place {
  std::string_view file;
  std::string path;

  Place operator/(std::string_view key) const { return {file, fmt::format("{}/{}", path, key)}; }
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw ConfigError(
        fmt::format("{}: {}: {}", file, path, fmt::format(format, std::forward<Args>(args)...)));
  }
};

void check_keys(const Json& object, const Place& place, const std::vector<std::string_view>& known) {
  if (!object.is_object()) return;  // the schema's affair
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const auto nearest =
        std::ranges::min_element(known, {}, [&key = key](auto name) { return edit_distance(key, name); });
    if (edit_distance(key, *nearest) <= 2) place.fail("unknown key '{}'; did you mean '{}'?", key, *nearest);
    place.fail("unknown key '{}'; known are: {}", key, fmt::join(known, ", "));
  }
}

double positive(const Json& value, const Place& place, double largest, std::string_view unit) {
  const auto number = value.get<double>();
  if (!(number > 0) || !std::isfinite(number)) place.fail("{} is not a positive number of {}", number, unit);
  if (number > largest) place.fail("{} is more than {} {}: is it in {}?", number, largest, unit, unit);
  return number;
}

LinkSpeed read_speed(const Json& entry, const Place& place) {
  const auto latency = entry.at("latency_ms").get<double>();
  if (!(latency >= 0) || latency > kMaxLatencyMs) {
    (place / "latency_ms").fail("{} is not between 0 and {} ms", latency, kMaxLatencyMs);
  }
  return {latency,
          positive(entry.at("bandwidth_mbps"), place / "bandwidth_mbps", kMaxBandwidthMbps, "Mbit/s")};
}

std::int64_t node_number(const std::string& id) {
  std::int64_t number = -1;
  std::from_chars(id.data(), id.data() + id.size(), number);
  return number;
}

bool is_node_id(const std::string& id) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !id.empty() && id.size() <= 6 && std::ranges::all_of(id, digit) && (id.size() == 1 || id[0] != '0');
}

// {"nodes": {…}, "network": {…}}
Json gather_nodes(const Json& document, std::string_view file) {
  if (!document.is_object()) throw ConfigError(fmt::format("{}: is not an object of nodes", file));
  Json gathered = {{"nodes", Json::object()}};
  for (const auto& [key, value] : document.items()) {
    if (is_node_id(key)) {
      gathered["nodes"][key] = value;
    } else if (key == "network") {
      gathered["network"] = value;
    } else if (edit_distance(key, "network") <= 2) {
      throw ConfigError(fmt::format("{}: unknown key '{}'; did you mean 'network'?", file, key));
    } else {
      throw ConfigError(
          fmt::format("{}: nodes/{}: a node's id is a whole number from 0 to {}, without leading zeros", file,
                      key, kMaxNodeId));
    }
  }
  if (gathered["nodes"].empty()) {
    throw ConfigError(fmt::format(
        R"({}: there are no nodes: add one, such as "0": {{"IP": "0.0.0.0:8080", "benchmarks": {{"ram": 8, "bandwidth": 10}}}})",
        file));
  }
  return gathered;
}

void check_all_keys(const Json& pool, std::string_view file) {
  for (const auto& [id, node] : pool.at("nodes").items()) {
    const Place place{file, "nodes/" + id};
    check_keys(node, place, {"IP", "benchmarks", "region"});
    if (node.is_object() && node.contains("benchmarks"))
      check_keys(node.at("benchmarks"), place / "benchmarks",
                 {"ram", "bandwidth", "gflops", "transfer_gbps"});
  }
  if (!pool.contains("network")) return;
  const Json& network = pool.at("network");
  const Place place{file, "network"};
  check_keys(network, place, {"default", "regions", "links"});
  if (!network.is_object()) return;
  if (network.contains("default"))
    check_keys(network.at("default"), place / "default", {"latency_ms", "bandwidth_mbps"});
  for (const char* list : {"regions", "links"}) {
    if (!network.contains(list) || !network.at(list).is_array()) continue;
    for (std::size_t i = 0; i < network.at(list).size(); ++i) {
      check_keys(network.at(list)[i], place / list / std::to_string(i),
                 {"between", "latency_ms", "bandwidth_mbps"});
    }
  }
}

PoolNode read_node(const std::string& id, const Json& entry, const Place& place) {
  PoolNode node{.id = id, .address = entry.at("IP").get<std::string>()};
  node.host = host_of(node.address);
  if (const std::string problem = address_problem(node.address); !problem.empty())
    (place / "IP").fail("'{}' {}", node.address, problem);
  const Json& benchmarks = entry.at("benchmarks");
  const Place at = place / "benchmarks";
  node.ram_gb = positive(benchmarks.at("ram"), at / "ram", kMaxRamGb, "GB");
  node.bandwidth_mbps = positive(benchmarks.at("bandwidth"), at / "bandwidth", kMaxBandwidthMbps, "Mbit/s");
  if (benchmarks.contains("gflops"))
    node.gflops = positive(benchmarks.at("gflops"), at / "gflops", kMaxGflops, "GFLOP/s");
  if (benchmarks.contains("transfer_gbps")) {
    node.transfer_gbps =
        positive(benchmarks.at("transfer_gbps"), at / "transfer_gbps", kMaxTransferGbps, "GB/s");
  }
  node.region = entry.value("region", "");
  return node;
}

using NamePair = std::pair<std::string, std::string>;

NamePair ordered(std::string a, std::string b) {
  return a <= b ? NamePair(std::move(a), std::move(b)) : NamePair(std::move(b), std::move(a));
}

std::map<NamePair, LinkSpeed> read_pairs(const Json& network, const char* list, const Place& place) {
  std::map<NamePair, LinkSpeed> pairs;
  if (!network.contains(list)) return pairs;
  for (std::size_t i = 0; i < network.at(list).size(); ++i) {
    const Json& entry = network.at(list)[i];
    const Place at = place / list / std::to_string(i);
    const NamePair pair =
        ordered(entry.at("between")[0].get<std::string>(), entry.at("between")[1].get<std::string>());
    if (!pairs.emplace(pair, read_speed(entry, at)).second)
      (at / "between").fail("'{}' and '{}' are there twice", pair.first, pair.second);
  }
  return pairs;
}

}  // namespace

NodePool NodePool::from_json(const Json& document, std::string_view file) {
  const Json pool_json = gather_nodes(document, file);
  check_all_keys(pool_json, file);
  validate_json(pool_json, pool_schema(), file);

  NodePool pool;
  for (const auto& [id, entry] : pool_json.at("nodes").items())
    pool.nodes_.push_back(read_node(id, entry, {file, "nodes/" + id}));
  std::ranges::sort(pool.nodes_, {}, [](const PoolNode& node) { return node_number(node.id); });
  std::map<std::string, std::string> owner;
  for (const PoolNode& node : pool.nodes_) {
    const auto [first, is_new] = owner.emplace(node.address, node.id);
    if (!is_new)
      Place{file, "nodes/" + node.id}.fail("'{}' is node {}'s address too", node.address, first->second);
  }

  if (!pool_json.contains("network")) return pool;
  const Json& network = pool_json.at("network");
  const Place place{file, "network"};
  if (network.contains("default")) pool.default_ = read_speed(network.at("default"), place / "default");
  const std::map<NamePair, LinkSpeed> links = read_pairs(network, "links", place);
  for (const auto& [pair, speed] : links) {
    for (const std::string& id : {pair.first, pair.second}) {
      if (!pool_json.at("nodes").contains(id)) (place / "links").fail("there is no node '{}'", id);
    }
    if (pair.first == pair.second) (place / "links").fail("a link from node {} to itself", pair.first);
    pool.links_[std::minmax({pool.index_of(pair.first), pool.index_of(pair.second)})] = speed;
  }
  pool.number_regions(read_pairs(network, "regions", place));
  return pool;
}

std::size_t NodePool::index_of(const std::string& id) const {
  return static_cast<std::size_t>(std::ranges::find(nodes_, id, &PoolNode::id) - nodes_.begin());
}

void NodePool::number_regions(const std::map<std::pair<std::string, std::string>, LinkSpeed>& ways) {
  std::map<std::string, std::size_t> numbers;
  for (const PoolNode& node : nodes_)
    region_of_.push_back(numbers.emplace(node.region, numbers.size()).first->second);
  for (const auto& [pair, speed] : ways) {
    numbers.emplace(pair.first, numbers.size());
    numbers.emplace(pair.second, numbers.size());
  }
  regions_ = ways.empty() ? 0 : numbers.size();
  region_ways_.resize(regions_ * regions_);
  for (const auto& [pair, speed] : ways) {
    const std::size_t a = numbers.at(pair.first);
    const std::size_t b = numbers.at(pair.second);
    region_ways_[a * regions_ + b] = region_ways_[b * regions_ + a] = speed;
  }
}

NodePool NodePool::without(const std::set<std::string>& ids) const {
  for (const std::string& id : ids) {
    if (index_of(id) == nodes_.size()) throw ConfigError(fmt::format("there is no node '{}' to exclude", id));
  }
  if (ids.size() == nodes_.size()) throw ConfigError("all nodes are excluded: leave at least one");
  NodePool pool = *this;
  std::vector<std::size_t> kept;  // their old indices
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!ids.contains(nodes_[i].id)) kept.push_back(i);
  }
  pool.nodes_.clear();
  pool.region_of_.clear();
  pool.links_.clear();
  for (const std::size_t i : kept) {
    pool.nodes_.push_back(nodes_[i]);
    if (!region_of_.empty()) pool.region_of_.push_back(region_of_[i]);
  }
  const auto new_index = [&](std::size_t old) {
    return static_cast<std::size_t>(std::ranges::lower_bound(kept, old) - kept.begin());
  };
  for (const auto& [pair, speed] : links_) {
    if (!ids.contains(nodes_[pair.first].id) && !ids.contains(nodes_[pair.second].id))
      pool.links_[{new_index(pair.first), new_index(pair.second)}] = speed;
  }
  return pool;
}

NodePool NodePool::read(const std::filesystem::path& node_configs) {
  return from_json(read_json(node_configs), node_configs.string());
}

LinkSpeed NodePool::link(std::size_t a, std::size_t b) const {
  ROOKERY_CHECK(a != b && a < nodes_.size() && b < nodes_.size(), "the link from {} to {} of {} nodes", a, b,
                nodes_.size());
  const PoolNode& one = nodes_[a];
  const PoolNode& other = nodes_[b];
  LinkSpeed speed{kAssumedLatencyMs, std::min(one.bandwidth_mbps, other.bandwidth_mbps)};
  const auto use = [&speed](const LinkSpeed& given) {
    speed = {given.latency_ms, std::min(speed.bandwidth_mbps, given.bandwidth_mbps)};
  };
  const auto link = links_.empty() ? links_.end() : links_.find(std::minmax({a, b}));
  if (link != links_.end()) {
    use(link->second);
  } else if (regions_ > 0 && region_ways_[region_of_[a] * regions_ + region_of_[b]]) {
    use(*region_ways_[region_of_[a] * regions_ + region_of_[b]]);
  } else if (default_) {
    use(*default_);
  } else if (one.host == other.host) {
    return kOnOneMachine;
  }
  return speed;
}

double NodePool::connection_mbps(std::size_t node) const {
  const bool has_network = default_ || regions_ > 0 || !links_.empty();
  const auto is_here = [&](const PoolNode& other) { return other.host == nodes_[node].host; };
  if (has_network || nodes_.size() < 2 || !std::ranges::all_of(nodes_, is_here))
    return nodes_[node].bandwidth_mbps;
  return kOnOneMachine.bandwidth_mbps;
}

bool NodePool::has_speeds() const {
  return default_ || regions_ > 0 || !links_.empty() ||
         std::ranges::any_of(nodes_, [](const PoolNode& node) { return node.gflops.has_value(); });
}

}  // namespace rookery
