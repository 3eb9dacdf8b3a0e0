// Tells two spirals apart: a model, a data set and a loss of one's own, trained beside standard providers.
#include <rookery/clusterize/planner/planner.hpp>
#include <rookery/clusterize/planner/write_plan.hpp>
#include <rookery/clusterize/task/make_task.hpp>
#include <rookery/fusion/merge.hpp>
#include <rookery/models/graph/ops/builder.hpp>
#include <rookery/models/graph/state/initialize.hpp>
#include <rookery/node/node.hpp>

#include <cmath>
#include <cstdio>

using namespace rookery;

// Sample i is a point of spiral i % 2, which is called 1 or -1.
class Spirals : public Dataset {
 public:
  std::int64_t size() const override { return 1000; }
  std::int64_t bytes() const override { return 0; }
  const ValueTypes& tensors() const override { return types_; }
  void gather(const std::string& name, std::span<const std::int64_t> ids, TensorView into) const override {
    auto to = into.as<float>().begin();
    for (const std::int64_t id : ids) {
      const float side = id % 2 == 0 ? 1.0F : -1.0F, radius = static_cast<float>(id) / 1000;
      if (name == "side") *to++ = side;
      if (name == "point")
        *to++ = side * radius * std::cos(6 * radius), *to++ = side * radius * std::sin(6 * radius);
    }
  }

 private:
  ValueTypes types_{{"point", {DType::kF32, {kBatch, 2}}}, {"side", {DType::kF32, {kBatch, 1}}}};
};

// Its second output is the loss of each sample, made of ops like all else: max(0, 1 - side * score)^2.
Graph model() {
  GraphBuilder build;
  ValueId x = build.input("point", {2});
  for (const char* layer : {"1", "2", "3"})
    x = build.tanh(std::string("tanh_") + layer, build.linear(layer, x, 48));
  const ValueId score = build.linear("score", x, 1);
  const ValueId margin = build.mul("margin", build.input("side", {1}), score);
  const ValueId miss = build.relu("miss", build.sub("short", build.full("one", {1}, 1), margin));
  return build.finish({score, build.mul("squared", miss, miss)});
}

int main() {
  const Spirals data;
  TrainingSettings settings{.model = "own:spirals", .data = "own:spirals", .epochs = 60, .batch_size = 50};
  settings.loss.terms = {{.name = "mean", .output = "squared_out"}};
  const TrainingTask task = make_task(model(), data, settings);
  const NodePool pool = NodePool::read("node_data/node_configs.json");
  write_plan("node_data", task, make_plan(task, pool, usual_search(pool, 1)), initial_state(task.graph, 1));
  std::puts("The plan is written: start provider --name node_1 and so on.");
  Node root({.name = "node_0", .dataset = &data});
  root.run([&](Trainer& trainer) {  // the same loop as the standard providers'
    for (int epoch = 0; epoch < settings.epochs; ++epoch) trainer.train_epoch(epoch), trainer.validate(epoch);
  });
  write_fused(fuse_cluster("node_data", 0, model()), "trained");
}
