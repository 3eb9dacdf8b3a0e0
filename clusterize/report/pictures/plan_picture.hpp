// A plan drawn: clusters, their stages and links, what is averaged, and who is left out.
#pragma once

#include <string>

#include "clusterize/report/bottleneck.hpp"

namespace rookery {

// Plans of more nodes have a line per cluster instead of a box per stage.
constexpr std::size_t kMostNodesDrawn = 48;

// An SVG file; a function of its arguments alone. `pool` is the plan's.
std::string plan_picture(const NodePool& pool, const Planned& planned, const Bottleneck& bottleneck);

}  // namespace rookery
