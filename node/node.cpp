#include "node/node.hpp"

#include <string>
#include <utility>

#include "clusterize/plan/cluster_plan.hpp"
#include "models/base/error.hpp"
#include "node/run/node_process.hpp"
#include "node/run/plan_run.hpp"

namespace rookery {

void check_runnable(const NodeMetadata& metadata) {
  const std::string problem = training_problem(static_cast<std::size_t>(metadata.clusters));
  if (!problem.empty()) throw ConfigError(problem);
}

struct Node::Impl {
  explicit Impl(NodeOptions options) : process(std::move(options)), plan(process) {}

  NodeProcess process;
  PlanRun plan;
};

Node::Node(NodeOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Node::~Node() = default;

const NodeMetadata& Node::metadata() const {
  return impl_->plan.metadata();
}

const MemoryUse& Node::memory() const {
  return impl_->plan.memory();
}

NodeReport Node::run(const std::function<void(Trainer&)>& loop) {
  return impl_->plan.run(loop);
}

}  // namespace rookery
