#include "models/graph/initialize.hpp"

#include <algorithm>

#include "models/base/rng.hpp"

namespace rookery {
namespace {

Tensor initial_tensor(const Value& value, std::uint64_t seed) {
  Tensor tensor(value.type);
  switch (value.initializer.kind) {
    case Initializer::Kind::kZeros:
      break;
    case Initializer::Kind::kOnes:
      std::ranges::fill(tensor.as<float>(), 1.0F);
      break;
    case Initializer::Kind::kUniform: {
      CounterRng rng(rng_key(seed, value.name), 0);
      const float bound = value.initializer.bound;
      for (float& element : tensor.as<float>()) element = (2.0F * rng.next_float() - 1.0F) * bound;
      break;
    }
  }
  return tensor;
}

}  // namespace

StateViews views_of(const StateDict& state) {
  StateViews views;
  for (const auto& [name, tensor] : state) views.emplace(name, tensor.view());
  return views;
}

StateDict initial_state(const Graph& graph, std::uint64_t seed) {
  StateDict state;
  for (const auto& ids : {graph.parameters(), graph.buffers()}) {
    for (const ValueId id : ids) state.emplace(graph.value(id).name, initial_tensor(graph.value(id), seed));
  }
  return state;
}

}  // namespace rookery
