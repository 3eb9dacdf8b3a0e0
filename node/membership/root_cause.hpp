// Finds whose failure ended a run, of all that failed with it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace rookery {

struct EndedNode {
  std::string name;     // "node_1 (127.0.0.1:8081)", as its peers call it
  std::string message;  // why it ended; empty where it did not say
};

struct Blame {
  std::size_t cause = 0;
  std::optional<std::size_t> witness;  // whose message says so, where it is not the cause's own
};

// From the node that was seen to fail first along those whom the messages give as the reason ("…: node_1 (…)
// failed: …", "node_2 (…) is lost: …"), to the one that blames nobody else.
Blame root_cause(const std::vector<EndedNode>& nodes, std::size_t first);

}  // namespace rookery
