#include "models/runtime/machine_speed.hpp"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "models/graph/builder.hpp"
#include "models/graph/cost.hpp"
#include "models/graph/loss.hpp"
#include "models/runtime/step_profile.hpp"

namespace rookery {
namespace {

// One of the suite's models with its loss, the micro-batch it is measured at, and its profile.
struct Measured {
  Measured(Graph model, std::int64_t batch, double seconds) : graph(std::move(model)) {
    add_loss(graph, "mse");
    costs = op_costs(graph, batch);
    const CompileOptions options{.training_sizes = {batch}, .kernels = choose_kernels(graph, batch)};
    StepProfiler profiler(cut(graph, std::vector<OpId>{0}).front(), options);
    profiler.run(seconds);
    profile = profiler.profile();
  }

  // Of all ops of these types.
  double seconds(const std::set<std::string>& types) const {
    double total = 0;
    for (const OpTime& op : profile.ops) {
      if (types.contains(type_of(op.forward))) total += op.seconds;
    }
    return total;
  }
  double sum(const std::set<std::string>& types, double OpCost::*forward, double OpCost::*backward) const {
    double total = 0;
    for (std::size_t i = 0; i < costs.size(); ++i) {
      if (types.contains(graph.ops()[i].type)) total += costs[i].*forward + costs[i].*backward;
    }
    return total;
  }
  double flops() const {
    double total = 0;
    for (const OpCost& cost : costs) total += cost.forward_flops + cost.backward_flops;
    return total;
  }
  const std::string& type_of(const std::string& op) const {
    return std::ranges::find(graph.ops(), op, &Op::name)->type;
  }

  Graph graph;
  std::vector<OpCost> costs;
  StepProfile profile;
};

Graph product_layers() {
  GraphBuilder builder;
  ValueId x = builder.input("x", {1024});
  for (const char* name : {"first", "second", "third"}) x = builder.linear(name, x, 1024);
  return builder.finish({x});
}

// What residual networks are made of, at sizes of their middle.
Graph residual_blocks() {
  GraphBuilder builder;
  ValueId x = builder.conv2d("stem", builder.input("x", {3, 32, 32}), 64);
  for (const std::string name : {"first", "second"}) {
    const ValueId before = x;
    x = builder.relu(name + ".relu_1",
                     builder.batch_norm(name + ".norm_1", builder.conv2d(name + ".conv_1", x, 64)));
    x = builder.batch_norm(name + ".norm_2", builder.conv2d(name + ".conv_2", x, 64));
    x = builder.relu(name + ".relu_2", builder.add(name + ".add", x, before));
  }
  return builder.finish({x});
}

}  // namespace

MachineSpeed measure_speed(double seconds, const std::function<void(const std::string&)>& doing) {
  const auto tell = [&](const char* what) {
    if (doing) doing(what);
  };
  const double processor_begin = processor_seconds();
  const auto begin = std::chrono::steady_clock::now();
  constexpr double kGiga = 1e9;
  constexpr double kAdamBytes = 28;  // a parameter: four numbers read, three written
  MachineSpeed speed;
  tell("matrix products and the optimizer");
  const Measured products(product_layers(), 256, seconds / 2);
  tell("convolutions, sums and batch norm");
  const Measured images(residual_blocks(), 16, seconds / 2);
  const auto gflops = [&](const Measured& of, const std::set<std::string>& types) {
    return of.sum(types, &OpCost::forward_flops, &OpCost::backward_flops) / of.seconds(types) / kGiga;
  };
  double parameters = 0;
  for (const OpCost& cost : products.costs) parameters += static_cast<double>(cost.parameters);
  speed.products_gflops = gflops(products, {"Gemm"});
  speed.convolutions_gflops = gflops(images, {"Conv"});
  const std::set<std::string> elementwise{"Add", "BatchNormalization", "Relu"};
  speed.elementwise_gbps = images.sum(elementwise, &OpCost::forward_bytes, &OpCost::backward_bytes) /
                           images.seconds(elementwise) / kGiga;
  speed.update_gbps = kAdamBytes * parameters / products.profile.update / kGiga;
  speed.gflops =
      (products.flops() + images.flops()) / (products.profile.seconds + images.profile.seconds) / kGiga;
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  speed.processors = (processor_seconds() - processor_begin) / taken.count();
  return speed;
}

double processor_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace rookery
