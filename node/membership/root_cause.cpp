#include "node/membership/root_cause.hpp"

#include <set>

namespace rookery {
namespace {

// What a provider says of a peer that ended its run: Membership, and the reasons of a StopNotice. That a peer
// "ended the run" is not among them: it tells of another one.
constexpr const char* kVerbs[] = {" failed", " was stopped", " is lost"};

// The last that the message names: "node_2 (…) ended the run: node_1 (…) is lost: …" gives node_1.
std::optional<std::size_t> blamed(const std::vector<EndedNode>& nodes, const std::string& message) {
  std::optional<std::size_t> found;
  std::size_t last = 0;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    for (const char* verb : kVerbs) {
      const std::size_t at = message.rfind(nodes[node].name + verb);
      if (at == std::string::npos || (found && at < last)) continue;
      found = node;
      last = at;
    }
  }
  return found;
}

}  // namespace

Blame root_cause(const std::vector<EndedNode>& nodes, std::size_t first) {
  Blame blame{.cause = first};
  std::set<std::size_t> seen{first};
  while (const auto next = blamed(nodes, nodes[blame.cause].message)) {
    if (!seen.insert(*next).second) break;
    blame.witness = blame.cause;
    blame.cause = *next;
  }
  if (blame.witness || !nodes[blame.cause].message.empty()) return blame;
  // Who was killed says nothing, and may have ended before those who tell of it.
  for (std::size_t node = 0; node < nodes.size() && !blame.witness; ++node) {
    if (blamed(nodes, nodes[node].message) == blame.cause) blame.witness = node;
  }
  return blame;
}

}  // namespace rookery
