// node_configs.json with other machines and links: what if?
#pragma once

#include <string>

#include "clusterize/pool/node_pool.hpp"

namespace rookery {

// One more node like that with this id, on its host, with the same links; it has the highest id.
Json with_copy_of(Json document, const std::string& id);
// So many times the sustained speed; `assumed` where the node gives none.
Json with_faster_node(Json document, const std::string& id, double factor, double assumed);
Json with_faster_connection(Json document, const std::string& id, double factor);
// Every node says how many threads it has, as the pool of these nodes, or some of them, knows it.
Json with_threads_of(Json document, const NodePool& pool);
// Others can open connections to the node.
Json with_reachable_node(Json document, const std::string& id);
// The link of two nodes, which their connections don't hold back. `speed` is that of the new link.
Json with_link(Json document, const std::string& a, const std::string& b, const LinkSpeed& speed);

}  // namespace rookery
