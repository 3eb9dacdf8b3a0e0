// The plan's key is known to every node of the plan and to nobody else: by it nodes admit each other.
#pragma once

#include <string>

namespace rookery {

struct PlanKey {
  std::string plan_id;  // 16 hexadecimal digits; names the plan, and is no secret
  std::string token;    // drawn by clusterize when it writes the plan
};

// The user name and password by which a node introduces itself when it connects.
struct Credentials {
  std::string user;  // "node_1@0123456789abcdef": the node and its plan
  std::string password;
};

inline Credentials credentials(const std::string& node, const PlanKey& key) {
  return {node + "@" + key.plan_id, key.token};
}

}  // namespace rookery
