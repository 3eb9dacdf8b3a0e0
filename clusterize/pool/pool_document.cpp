#include "clusterize/pool/pool_document.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "clusterize/pool/address.hpp"
#include "models/base/files/problems.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kMaxNodeId = 999'999;
constexpr int kMostNodeThreads = 1024;

// A key with a number: all that checks and messages need to know of it.
struct Quantity {
  std::string key;
  std::string unit;
  double most = 0;  // catches a wrong unit, far above any machine
  double example = 0;
  bool may_be_zero = false;

  // Completes "… is not".
  std::string wanted() const {
    return may_be_zero ? fmt::format("a number of {} from 0 to {}, e.g. {}", unit, most, example)
                       : fmt::format("a positive number of {}, e.g. {}", unit, example);
  }
};

const Quantity kRam{.key = "ram", .unit = "GB", .most = 1e6, .example = 8};
const Quantity kBandwidth{.key = "bandwidth", .unit = "Mbit/s", .most = 1e7, .example = 100};
const Quantity kGflops{.key = "gflops", .unit = "GFLOP/s", .most = 1e9, .example = 180};
const Quantity kTransfer{.key = "transfer_gbps", .unit = "GB/s", .most = 1e5, .example = 1.5};
const Quantity kLatency{.key = "latency_ms", .unit = "ms", .most = 60e3, .example = 20, .may_be_zero = true};
const Quantity kLinkBandwidth{.key = "bandwidth_mbps", .unit = "Mbit/s", .most = 1e7, .example = 100};

constexpr const char* kNodeExample = R"({"IP": "10.0.0.7:8080", "benchmarks": {"ram": 8, "bandwidth": 100}})";
constexpr const char* kAddressExample = R"("10.0.0.7:8080")";

std::int64_t node_number(const std::string& id) {
  std::int64_t number = -1;
  std::from_chars(id.data(), id.data() + id.size(), number);
  return number;
}

bool is_node_id(const std::string& id) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !id.empty() && id.size() <= 6 && std::ranges::all_of(id, digit) && (id.size() == 1 || id[0] != '0');
}

class Reader {
 public:
  PoolDocument read(const Json& document, std::string_view file) {
    if (document.is_object()) {
      read_nodes(document);
      check_addresses();
      if (const auto network = document.find("network"); network != document.end()) read_network(*network);
    } else {
      problems_.add(
          "", fmt::format("{} is not an object of nodes, e.g. {{\"0\": {}}}", shown(document), kNodeExample));
    }
    problems_.throw_if_any(file);
    return std::move(read_);
  }

 private:
  void read_nodes(const Json& document) {
    for (const auto& [key, value] : document.items()) {
      if (is_node_id(key)) {
        ids_.insert(key);
        read_node(key, value);
      } else if (key != "network") {
        refuse_id(key);
      }
    }
    if (ids_.empty() && problems_.empty())
      problems_.add("", fmt::format("there are no nodes: add one, e.g. \"0\": {}", kNodeExample));
    std::ranges::sort(read_.nodes, {}, [](const PoolNode& node) { return node_number(node.id); });
  }

  void refuse_id(const std::string& key) {
    const std::vector<std::string> other_keys{"network"};
    if (!nearest_name(key, other_keys).empty()) return problems_.add_unknown_key("", key, other_keys);
    problems_.add("",
                  fmt::format("{} is not a node: a node's id is a whole number from 0 to {}, in quotes and "
                              "without leading zeros, e.g. \"0\"",
                              shown(key), kMaxNodeId));
  }

  // False, and a problem, where `value` is none.
  bool is_object(const Json& value, const std::string& place, std::string_view example,
                 const std::vector<std::string>& keys) {
    if (!value.is_object()) {
      problems_.add(place, fmt::format("{} is not an object, e.g. {}", shown(value), example));
      return false;
    }
    for (const auto& [key, of_key] : value.items()) {
      if (std::ranges::find(keys, key) == keys.end()) problems_.add_unknown_key(place, key, keys);
    }
    return true;
  }

  // Nullptr, and a problem, where the key is missing.
  const Json* required(const Json& object, const std::string& place, std::string_view key,
                       const std::string& what) {
    const auto found = object.find(key);
    if (found != object.end()) return &*found;
    problems_.add(fmt::format("{}/{}", place, key), "is missing: give " + what);
    return nullptr;
  }

  // Nothing where the key is absent, and after a problem.
  std::optional<double> optional_number(const Json& object, const std::string& place,
                                        const Quantity& quantity) {
    const auto found = object.find(quantity.key);
    if (found == object.end()) return std::nullopt;
    const std::string at = fmt::format("{}/{}", place, quantity.key);
    if (!found->is_number()) {
      problems_.add(at, fmt::format("{} is not a number of {}, e.g. {}", shown(*found), quantity.unit,
                                    quantity.example));
      return std::nullopt;
    }
    const auto number = found->get<double>();
    if (!std::isfinite(number) || number < 0 || (number == 0 && !quantity.may_be_zero)) {
      problems_.add(at, fmt::format("{} is not {}", shown(*found), quantity.wanted()));
      return std::nullopt;
    }
    if (number > quantity.most) {
      problems_.add(at, fmt::format("{} is more than {} {}: is it in {}? An example: {}", shown(*found),
                                    quantity.most, quantity.unit, quantity.unit, quantity.example));
      return std::nullopt;
    }
    return number;
  }

  double number(const Json& object, const std::string& place, const Quantity& quantity) {
    if (required(object, place, quantity.key, quantity.wanted()) == nullptr) return 0;
    return optional_number(object, place, quantity).value_or(0);
  }

  void read_node(const std::string& id, const Json& entry) {
    PoolNode node{.id = id};
    if (!is_object(entry, id, kNodeExample, {"IP", "benchmarks", "threads", "region", "reachable"})) return;
    node.address = read_address(entry, id);
    if (const auto region = entry.find("region"); region != entry.end()) {
      if (region->is_string())
        node.region = region->get<std::string>();
      else
        problems_.add(id + "/region",
                      fmt::format("{} is not the name of a region, e.g. \"Turin\"", shown(*region)));
    }
    if (const auto threads = entry.find("threads"); threads != entry.end()) {
      if (threads->is_number_integer() && *threads >= 1 && *threads <= kMostNodeThreads)
        node.threads = threads->get<int>();
      else
        problems_.add(id + "/threads", fmt::format("{} is not a number of threads from 1 to {}, e.g. 4",
                                                   shown(*threads), kMostNodeThreads));
    }
    if (const auto reachable = entry.find("reachable"); reachable != entry.end()) {
      if (reachable->is_boolean())
        node.reachable = reachable->get<bool>();
      else
        problems_.add(id + "/reachable",
                      fmt::format("{} is neither true nor false: false says that others cannot open "
                                  "connections to the node",
                                  shown(*reachable)));
    }
    constexpr const char* kExample = R"({"ram": 8, "bandwidth": 100})";
    const std::string place = id + "/benchmarks";
    const Json* const given = required(entry, id, "benchmarks", kExample);
    if (given != nullptr &&
        is_object(*given, place, kExample, {kRam.key, kBandwidth.key, kGflops.key, kTransfer.key})) {
      node.ram_gb = number(*given, place, kRam);
      node.bandwidth_mbps = number(*given, place, kBandwidth);
      node.gflops = optional_number(*given, place, kGflops);
      node.transfer_gbps = optional_number(*given, place, kTransfer);
    }
    read_.nodes.push_back(std::move(node));
  }

  // Empty after a problem.
  std::string read_address(const Json& entry, const std::string& id) {
    const Json* const given =
        required(entry, id, "IP", fmt::format("the address where others reach it, e.g. {}", kAddressExample));
    if (given == nullptr) return {};
    const std::string place = id + "/IP";
    if (!given->is_string()) {
      problems_.add(place, fmt::format("{} is not an address, e.g. {}", shown(*given), kAddressExample));
      return {};
    }
    auto address = given->get<std::string>();
    const std::string problem = address_problem(address);
    if (problem.empty()) return address;
    problems_.add(place, fmt::format("{} {}", shown(*given), problem));
    return {};
  }

  void check_addresses() {
    std::map<std::pair<std::string, std::string>, std::string> owner;  // by host and port
    for (const PoolNode& node : read_.nodes) {
      if (node.address.empty()) continue;
      const std::string port = node.address.substr(node.address.rfind(':') + 1);
      const auto [first, is_new] = owner.emplace(std::pair(host_of(node.address), port), node.id);
      if (is_new) continue;
      problems_.add(node.id + "/IP", fmt::format("\"{}\" is node {}'s address too: each node has its own",
                                                 node.address, first->second));
    }
  }

  void read_network(const Json& network) {
    constexpr const char* kExample = R"({"default": {"latency_ms": 20, "bandwidth_mbps": 100}})";
    if (!is_object(network, "network", kExample, {"default", "regions", "links"})) return;
    if (const auto any = network.find("default"); any != network.end()) {
      const std::string place = "network/default";
      if (is_object(*any, place, R"({"latency_ms": 20, "bandwidth_mbps": 100})",
                    {kLatency.key, kLinkBandwidth.key}))
        read_.any_link = read_speed(*any, place);
    }
    read_.regions = read_pairs(network, "regions", R"(two names of regions, e.g. ["Turin", "Oslo"])");
    read_.links = read_pairs(network, "links", R"(two nodes' ids in quotes, e.g. ["0", "1"])");
    for (const auto& [pair, speed] : read_.links) {
      for (const std::string& id : {pair.first, pair.second}) {
        if (!ids_.contains(id)) problems_.add("network/links", fmt::format("there is no node {}", shown(id)));
      }
      if (pair.first == pair.second)
        problems_.add("network/links", fmt::format("a link from node {} to itself", pair.first));
    }
  }

  LinkSpeed read_speed(const Json& entry, const std::string& place) {
    return {number(entry, place, kLatency), number(entry, place, kLinkBandwidth)};
  }

  std::map<NamePair, LinkSpeed> read_pairs(const Json& network, const std::string& list,
                                           const std::string& between) {
    std::map<NamePair, LinkSpeed> pairs;
    const auto given = network.find(list);
    if (given == network.end()) return pairs;
    const std::string place = "network/" + list;
    const std::string example = fmt::format(R"({{"between": {}, "latency_ms": 20, "bandwidth_mbps": 100}})",
                                            between.substr(between.find('[')));
    if (!given->is_array()) {
      problems_.add(place, fmt::format("{} is not a list, e.g. [{}]", shown(*given), example));
      return pairs;
    }
    for (std::size_t i = 0; i < given->size(); ++i) {
      const std::string at = fmt::format("{}/{}", place, i);
      const Json& entry = (*given)[i];
      if (!is_object(entry, at, example, {"between", kLatency.key, kLinkBandwidth.key})) continue;
      const LinkSpeed speed = read_speed(entry, at);
      const std::optional<NamePair> pair = read_pair(entry, at, between);
      if (pair && !pairs.emplace(*pair, speed).second)
        problems_.add(at + "/between",
                      fmt::format("\"{}\" and \"{}\" are there twice", pair->first, pair->second));
    }
    return pairs;
  }

  std::optional<NamePair> read_pair(const Json& entry, const std::string& place, const std::string& what) {
    const Json* const given = required(entry, place, "between", what);
    if (given == nullptr) return std::nullopt;
    const auto is_text = [](const Json& name) { return name.is_string(); };
    if (!given->is_array() || given->size() != 2 || !std::ranges::all_of(*given, is_text)) {
      problems_.add(place + "/between", fmt::format("{} is not {}", shown(*given), what));
      return std::nullopt;
    }
    auto first = (*given)[0].get<std::string>();
    auto second = (*given)[1].get<std::string>();
    if (second < first) std::swap(first, second);
    return NamePair(std::move(first), std::move(second));
  }

  Problems problems_;
  std::set<std::string> ids_;  // of all nodes, also of those with problems
  PoolDocument read_;
};

}  // namespace

PoolDocument read_pool_document(const Json& document, std::string_view file) {
  return Reader().read(document, file);
}

}  // namespace rookery
