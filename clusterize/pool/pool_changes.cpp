#include "clusterize/pool/pool_changes.hpp"

#include <algorithm>
#include <set>

#include "models/base/libraries/json.hpp"

namespace rookery {
namespace {

constexpr const char* kNetwork = "network";

Json& links_of(Json& document) {
  return document[kNetwork]["links"];
}

// On the same host.
std::string free_address(const Json& document, const std::string& address) {
  std::set<std::string> taken;
  for (const auto& [key, value] : document.items()) {
    if (key != kNetwork) taken.insert(value.at("IP").get<std::string>());
  }
  const std::string host = address.substr(0, address.rfind(':') + 1);
  int port = 1;
  while (taken.contains(host + std::to_string(port))) ++port;
  return host + std::to_string(port);
}

}  // namespace

Json with_copy_of(Json document, const std::string& id) {
  int last = 0;
  for (const auto& [key, value] : document.items()) {
    if (key != kNetwork) last = std::max(last, std::stoi(key));
  }
  const std::string copy = std::to_string(last + 1);
  Json node = document.at(id);
  node["IP"] = free_address(document, node.at("IP").get<std::string>());
  document[copy] = std::move(node);
  if (!document.contains(kNetwork) || !document[kNetwork].contains("links")) return document;
  Json added = Json::array();
  for (const Json& link : links_of(document)) {
    for (const std::size_t end : {0, 1}) {
      if (link.at("between").at(end) != id) continue;
      Json of_copy = link;
      of_copy["between"][end] = copy;
      added.push_back(of_copy);
    }
  }
  for (Json& link : added) links_of(document).push_back(std::move(link));
  return document;
}

Json with_faster_node(Json document, const std::string& id, double factor, double assumed) {
  Json& benchmarks = document.at(id).at("benchmarks");
  benchmarks["gflops"] = factor * benchmarks.value("gflops", assumed);
  return document;
}

Json with_faster_connection(Json document, const std::string& id, double factor) {
  Json& bandwidth = document.at(id).at("benchmarks").at("bandwidth");
  bandwidth = factor * bandwidth.get<double>();
  return document;
}

Json with_threads_of(Json document, const NodePool& pool) {
  for (const PoolNode& node : pool.nodes()) document.at(node.id)["threads"] = node.threads.value_or(1);
  return document;
}

Json with_reachable_node(Json document, const std::string& id) {
  document.at(id).erase("reachable");
  return document;
}

Json with_link(Json document, const std::string& a, const std::string& b, const LinkSpeed& speed) {
  for (const std::string& id : {a, b}) {
    Json& bandwidth = document.at(id).at("benchmarks").at("bandwidth");
    bandwidth = std::max(bandwidth.get<double>(), speed.bandwidth_mbps);
  }
  Json& links = links_of(document);
  if (!links.is_array()) links = Json::array();
  Json kept = Json::array();
  for (const Json& link : links) {
    const Json& between = link.at("between");
    if (between != Json{a, b} && between != Json{b, a}) kept.push_back(link);
  }
  kept.push_back(
      {{"between", {a, b}}, {"latency_ms", speed.latency_ms}, {"bandwidth_mbps", speed.bandwidth_mbps}});
  links = std::move(kept);
  return document;
}

}  // namespace rookery
