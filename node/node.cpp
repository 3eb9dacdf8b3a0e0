#include "node/node.hpp"

#include <string>
#include <utility>

#include "node/run/node_process.hpp"
#include "node/run/plan_run.hpp"

namespace rookery {

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
