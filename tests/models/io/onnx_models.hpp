// Models that the tests of ONNX files write.
#pragma once

#include "models/base/rng.hpp"
#include "models/graph/builder.hpp"
#include "models/graph/initialize.hpp"
#include "models/graph/loss.hpp"

namespace rookery {

// Every operator that files know, some with more than one user of a value.
inline Graph small_model() {
  GraphBuilder build;
  const ValueId x = build.input("x", {2, 6, 6});
  const ValueId conv = build.conv2d("conv", x, 4);
  const ValueId bn = build.batch_norm("bn_1", build.relu("relu", conv));
  const ValueId skip = build.add("skip", bn, conv);
  const ValueId grouped =
      build.conv2d("grouped", skip, 8, {.stride = 2, .padding = 1, .groups = 2, .bias = false});
  const ValueId pooled = build.max_pool2d("pool", grouped, 3, 1);
  const ValueId dropped = build.dropout("dropout", pooled, 0.25F);
  const ValueId flat = build.flatten("flatten", dropped);
  const ValueId dense = build.linear("dense", flat, 5);
  const ValueId normal = build.batch_norm("bn_2", dense);
  return build.finish(build.softmax("softmax", normal));
}

// Its state with running statistics as after some training.
inline StateDict trained_state(const Graph& graph) {
  StateDict state = initial_state(graph, 7);
  for (auto& [name, tensor] : state) {
    CounterRng rng(rng_key(1, name), 0);
    if (name.ends_with("num_batches_tracked")) tensor.as<std::int64_t>()[0] = 170;
    if (!name.starts_with("bn_") || tensor.type().dtype != DType::kF32) continue;
    for (float& element : tensor.as<float>()) element = 0.5F + rng.next_float();
  }
  return state;
}

}  // namespace rookery
