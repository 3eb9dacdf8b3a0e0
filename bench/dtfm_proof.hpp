// The least cost by DtfmObjective of all groupings of a pool into groups of one size, or the proof that none
// is below what a search has found: an exhaustive search, by branch and bound, for pools of few classes.
//
// Two nodes are of one class when swapping them changes no link; so a group is its composition, the number of
// its nodes of each class, and what the objective says of any nodes of these compositions holds for all. The
// search walks along the pipeline and tries every composition as the next group. It turns back where the
// cost cannot stay below the best known:
//   - DP is at least the largest of the groups so far, and of the least that any composition has that holds a
//     class of which nodes are left;
//   - each way takes at least the fastest link, and more where it has to. With links up to a value v only,
//     classes fall into parts without a link between them, and a way within v leads from a group to one with
//     as many nodes of each part. So as many ways take more than v as there must be changes of these numbers
//     among the groups that are left (none, one, or at least two), and at least one for each group that the
//     nodes without any link within v fill. What this adds up to over all v is a bound of the path.
#pragma once

#include <optional>

#include "bench/dtfm_objective.hpp"

namespace rookery {

// Costs nearer than this, in seconds, are the same: sums are not exact.
constexpr double kDtfmTolerance = 1e-9;

// The best grouping into `groups` groups of one size, or nothing where none costs less than `known`; that may
// be infinite.
std::optional<Grouping> grouping_below(double known, const NodePool& pool, const DtfmObjective& objective,
                                       std::size_t groups);

}  // namespace rookery
