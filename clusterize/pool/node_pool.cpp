#include "clusterize/pool/node_pool.hpp"

#include <algorithm>
#include <set>

#include "clusterize/pool/address.hpp"
#include "clusterize/pool/pool_document.hpp"
#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"

namespace rookery {
namespace {

// Where the pool says nothing of a link. Between machines, a wired local network: as good as their
// connections.
constexpr double kAssumedLatencyMs = 0.5;
// Between nodes on one machine, that share no connection: from one provider's arithmetic to the other's.
constexpr LinkSpeed kOnOneMachine{.latency_ms = 0.1, .bandwidth_mbps = 10'000};

// One name for all hosts that mean the machine itself.
std::string machine_of(const std::string& address) {
  std::string host = host_of(address);
  const bool is_own = host == "0.0.0.0" || host == "localhost" || host == "[::]" || host == "[::1]" ||
                      host.starts_with("127.");
  return is_own ? "localhost" : host;
}

}  // namespace

NodePool NodePool::from_json(const Json& document, std::string_view file) {
  PoolDocument given = read_pool_document(document, file);
  NodePool pool;
  pool.nodes_ = std::move(given.nodes);
  for (PoolNode& node : pool.nodes_) node.host = machine_of(node.address);
  pool.default_ = given.any_link;
  for (const auto& [pair, speed] : given.links)
    pool.links_[std::minmax({pool.index_of(pair.first), pool.index_of(pair.second)})] = speed;
  pool.number_regions(given.regions);
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

NodePool NodePool::with_reachable(const std::vector<int>& nodes) const {
  NodePool pool = *this;
  for (const int node : nodes) pool.nodes_[node].reachable = true;
  return pool;
}

NodePool NodePool::with_threads(int processors) const {
  struct Host {
    int given = 0;   // threads
    int others = 0;  // nodes
  };
  std::map<std::string, Host> hosts;
  for (const PoolNode& node : nodes_) {
    Host& host = hosts[node.host];
    node.threads ? host.given += *node.threads : ++host.others;
  }
  NodePool pool = *this;
  for (PoolNode& node : pool.nodes_) {
    const Host& host = hosts[node.host];
    if (!node.threads) node.threads = std::max(1, (processors - host.given) / host.others);
  }
  return pool;
}

NodePool NodePool::divided(const std::vector<std::vector<double>>& ram_gb) const {
  NodePool pool = *this;
  pool.nodes_.clear();
  pool.region_of_.clear();
  pool.links_.clear();
  std::map<std::string, std::set<int>> ports;  // by host
  for (const PoolNode& node : nodes_) ports[node.host].insert(port_of(node.address));
  std::vector<std::vector<std::size_t>> places(nodes_.size());  // of its chunks
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const double ram : ram_gb[i]) {
      PoolNode chunk = nodes_[i];
      chunk.chunk = static_cast<int>(places[i].size());
      chunk.ram_gb = ram;
      if (chunk.chunk > 0) {
        chunk.id += fmt::format(".{}", chunk.chunk);
        chunk.address = further_address(chunk.address, chunk.chunk, ports[chunk.host]);
        ports[chunk.host].insert(port_of(chunk.address));
      }
      places[i].push_back(pool.nodes_.size());
      pool.nodes_.push_back(std::move(chunk));
      pool.machine_of_.push_back(static_cast<int>(i));
      if (!region_of_.empty()) pool.region_of_.push_back(region_of_[i]);
    }
  }
  for (const auto& [pair, speed] : links_) {
    for (const std::size_t one : places[pair.first]) {
      for (const std::size_t other : places[pair.second]) pool.links_[std::minmax({one, other})] = speed;
    }
  }
  return pool;
}

NodePool NodePool::read(const std::filesystem::path& node_configs) {
  return from_json(read_json(node_configs), node_configs.string());
}

std::set<int> NodePool::all_threads() const {
  std::set<int> all;
  for (int node = 0; node < size(); ++node) all.insert(threads(node));
  return all;
}

const LinkSpeed* NodePool::given_link(std::size_t a, std::size_t b) const {
  const auto link = links_.empty() ? links_.end() : links_.find(std::minmax({a, b}));
  if (link != links_.end()) return &link->second;
  if (regions_ > 0) {
    const std::optional<LinkSpeed>& way = region_ways_[region_of_[a] * regions_ + region_of_[b]];
    if (way) return &*way;
  }
  return default_ ? &*default_ : nullptr;
}

LinkSpeed NodePool::link(int from, int to) const {
  const auto a = static_cast<std::size_t>(from);
  const auto b = static_cast<std::size_t>(to);
  ROOKERY_CHECK(a != b && a < nodes_.size() && b < nodes_.size(), "the link from {} to {} of {} nodes", from,
                to, nodes_.size());
  if (machine(from) == machine(to)) return kOnOneMachine;
  const PoolNode& one = nodes_[a];
  const PoolNode& other = nodes_[b];
  const double bandwidth_mbps = std::min(one.bandwidth_mbps, other.bandwidth_mbps);
  const LinkSpeed* const given = given_link(a, b);
  if (given != nullptr) return {given->latency_ms, std::min(bandwidth_mbps, given->bandwidth_mbps)};
  return one.host == other.host ? kOnOneMachine : LinkSpeed{kAssumedLatencyMs, bandwidth_mbps};
}

double NodePool::connection_mbps(int index) const {
  const bool has_network = default_ || regions_ > 0 || !links_.empty();
  const auto is_here = [&](const PoolNode& other) { return other.host == node(index).host; };
  if (has_network || nodes_.size() < 2 || !std::ranges::all_of(nodes_, is_here))
    return node(index).bandwidth_mbps;
  return kOnOneMachine.bandwidth_mbps;
}

bool NodePool::has_speeds() const {
  return default_ || regions_ > 0 || !links_.empty() ||
         std::ranges::any_of(nodes_, [](const PoolNode& node) { return node.gflops.has_value(); });
}

}  // namespace rookery
