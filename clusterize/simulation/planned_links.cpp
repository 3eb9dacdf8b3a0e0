#include "clusterize/simulation/planned_links.hpp"

#include "clusterize/simulation/step_program.hpp"

namespace rookery {

std::vector<PlannedLink> planned_links(const NodePool& pool, const std::vector<int>& members,
                                       std::span<const Stage> stages, std::int64_t micro_batch,
                                       const EdgeEncoding& encoding) {
  const std::vector<StageRoutes> routes = stage_routes(stages, micro_batch, encoding);
  std::vector<PlannedLink> links;
  for (std::size_t from = 0; from < members.size(); ++from) {
    for (std::size_t to = from + 1; to < members.size(); ++to) {
      const std::int64_t activations = routes[from].activation_bytes[to];
      const std::int64_t gradients = routes[to].gradient_bytes[from];
      if (activations == 0 && gradients == 0) continue;
      const LinkSpeed speed = pool.link(members[from], members[to]);
      const auto ms = [&](std::int64_t bytes) {
        return bytes == 0 ? 0 : speed.latency_ms + static_cast<double>(bytes) / (125 * speed.bandwidth_mbps);
      };
      links.push_back({.from = static_cast<int>(from),
                       .to = static_cast<int>(to),
                       .latency_ms = speed.latency_ms,
                       .bandwidth_mbps = speed.bandwidth_mbps,
                       .transport = encoding.on({static_cast<int>(from), static_cast<int>(to)}),
                       .activation_bytes = activations,
                       .gradient_bytes = gradients,
                       .activation_ms = ms(activations),
                       .gradient_ms = ms(gradients)});
    }
  }
  return links;
}

}  // namespace rookery
