#include "models/runtime/profile/machine_speed.hpp"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/cost.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/runtime/profile/step_profile.hpp"

namespace rookery {
namespace {

// One of the suite's models with its loss, at micro-batches of `batch` samples.
struct Measured {
  Measured(Graph model, std::int64_t batch)
      : graph(with_loss(std::move(model))),
        costs(op_costs(graph, batch)),
        profiler(cut(graph, std::vector<OpId>{0}).front(), options(graph, batch)) {}

  static CompileOptions options(const Graph& graph, std::int64_t batch) {
    CompileOptions options;
    options.training_sizes = {batch};
    options.kernels = choose_kernels(graph, batch);
    return options;
  }

  static Graph with_loss(Graph model) {
    add_loss(model, "mse");
    return model;
  }

  // The time that all ops of these types take.
  double seconds(const std::set<std::string>& types) const {
    const StepProfile profile = profiler.profile();
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
  StepProfiler profiler;
};

Graph product_layers() {
  GraphBuilder builder;
  ValueId x = builder.input("x", {1024});
  for (const char* name : {"first", "second", "third"}) x = builder.linear(name, x, 1024);
  return builder.finish(x);
}

// The blocks that residual networks are made of, at sizes of their middle.
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
  return builder.finish(x);
}

}  // namespace

struct SpeedMeter::Suite {
  Measured products{product_layers(), 256};
  Measured images{residual_blocks(), 16};
};

SpeedMeter::SpeedMeter() : suite_(std::make_unique<Suite>()) {}
SpeedMeter::~SpeedMeter() = default;

void SpeedMeter::run(double seconds, const std::function<void(const std::string&)>& doing) {
  const double processor_begin = processor_seconds();
  const auto begin = std::chrono::steady_clock::now();
  if (doing) doing("matrix products and the optimizer");
  suite_->products.profiler.run(seconds / 2);
  if (doing) doing("convolutions, sums and batch norm");
  suite_->images.profiler.run(seconds / 2);
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  processor_seconds_ += processor_seconds() - processor_begin;
}

MachineSpeed SpeedMeter::speed() const {
  constexpr double kGiga = 1e9;
  constexpr double kAdamBytes = 28;  // a parameter: four numbers read, three written
  const auto& [products, images] = *suite_;
  const StepProfile of_products = products.profiler.profile();
  const StepProfile of_images = images.profiler.profile();
  MachineSpeed speed;
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
  speed.update_gbps = kAdamBytes * parameters / of_products.update / kGiga;
  speed.gflops = (products.flops() + images.flops()) / (of_products.seconds + of_images.seconds) / kGiga;
  speed.processors = processor_seconds_ / seconds_;
  return speed;
}

double processor_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace rookery
