#include "trainer/checkpoint/reshard/told_by_all.hpp"

#include <utility>

#include "models/base/files/json_file.hpp"
#include "trainer/checkpoint/reshard/pieces.hpp"

namespace rookery {
namespace {

Json parsed(const std::string& name, const std::string& text) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw TransportError(fmt::format("receive {}: it cannot be read: {}", name, error.what()));
  }
}

// By cluster what its Root has: in each round every Root hands on what it got in the round before. One of
// them receives first, since a text may be larger than what links take before somebody receives.
std::vector<std::string> texts_of_clusters(const ClusterRoots* roots, const std::string& name,
                                           std::string own) {
  if (roots == nullptr) return {std::move(own)};
  const int clusters = roots->clusters();
  Pieces ring(roots->link());
  std::vector<std::string> texts(clusters);
  const auto of = [&](int cluster) -> std::string& { return texts[(cluster + clusters) % clusters]; };
  of(roots->cluster()) = std::move(own);
  for (int round = 1; round < clusters; ++round) {
    const std::string key = fmt::format("{}, {}", name, round);
    const auto send = [&] { ring.send_text(roots->next(), key, of(roots->cluster() - round + 1)); };
    if (roots->cluster() != 0) send();
    of(roots->cluster() - round) = ring.receive_text(roots->before(), key);
    if (roots->cluster() == 0) send();
  }
  return texts;
}

}  // namespace

OfNodes<Json> told_by_all(const Agreement& agreement, const std::string& name, const Json& own) {
  Pieces pipeline(agreement.link());
  Json all;
  if (agreement.stage() != 0) {
    pipeline.send_text(0, name, own.dump());
    all = parsed(name, pipeline.receive_text(0, name));
  } else {
    Json cluster = Json::array({own});
    for (int stage = 1; stage < agreement.stages(); ++stage)
      cluster.push_back(parsed(name, pipeline.receive_text(stage, name)));
    for (const std::string& text : texts_of_clusters(agreement.roots(), name, cluster.dump()))
      all.push_back(parsed(name, text));
    const std::string told = all.dump();
    for (int stage = 1; stage < agreement.stages(); ++stage) pipeline.send_text(stage, name, told);
  }
  try {
    return all.get<OfNodes<Json>>();
  } catch (const Json::exception& error) {
    throw TransportError(fmt::format("receive {}: it is not of all nodes: {}", name, error.what()));
  }
}

}  // namespace rookery
