// The genetic search minimises the score of an objective.
#pragma once

#include <array>
#include <vector>

#include "clusterize/genetic/grouping.hpp"

namespace rookery {

// Smaller is better, compared from the front: what violates constraints comes first, ties that would be
// plateaus of the search are broken at the end.
using Score = std::array<double, 5>;

// All members are functions of their arguments alone, whatever is remembered inside, and may be called
// by several threads at once.
class GroupingObjective {
 public:
  virtual ~GroupingObjective() = default;
  virtual Score score(const Grouping& grouping) const = 0;
  // Puts a cluster's nodes into a good order of stages.
  virtual void arrange(std::vector<int>& cluster) const { (void)cluster; }
  // Do number and sizes of the clusters have to stay as they are?
  virtual bool fixed_sizes() const { return false; }
};

}  // namespace rookery
