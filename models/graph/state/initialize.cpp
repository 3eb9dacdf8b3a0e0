#include "models/graph/state/initialize.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "models/base/rng.hpp"

namespace rookery {
namespace {

// Pairs by the method of Box and Muller, "A Note on the Generation of Random Normal Deviates" (1958).
void fill_normal(std::span<float> elements, CounterRng& rng, float deviation) {
  for (std::size_t i = 0; i < elements.size(); i += 2) {
    const float radius = deviation * std::sqrt(-2.0F * std::log(1.0F - rng.next_float()));
    const float angle = 2.0F * std::numbers::pi_v<float> * rng.next_float();
    elements[i] = radius * std::cos(angle);
    if (i + 1 < elements.size()) elements[i + 1] = radius * std::sin(angle);
  }
}

Tensor initial_tensor(const Value& value, std::uint64_t seed) {
  Tensor tensor(value.type);
  switch (value.initializer.kind) {
    case Initializer::Kind::kZeros:
      break;
    case Initializer::Kind::kOnes:
      std::ranges::fill(tensor.as<float>(), 1.0F);
      break;
    case Initializer::Kind::kConstant:
      std::ranges::fill(tensor.as<float>(), value.initializer.bound);
      break;
    case Initializer::Kind::kUniform: {
      CounterRng rng(rng_key(seed, value.name), 0);
      const float bound = value.initializer.bound;
      for (float& element : tensor.as<float>()) element = (2.0F * rng.next_float() - 1.0F) * bound;
      break;
    }
    case Initializer::Kind::kNormal: {
      CounterRng rng(rng_key(seed, value.name), 0);
      fill_normal(tensor.as<float>(), rng, value.initializer.bound);
      break;
    }
  }
  return tensor;
}

}  // namespace

StateDict initial_state(const Graph& graph, std::uint64_t seed, StateDict given) {
  StateDict state = std::move(given);
  for (const auto& ids : {graph.parameters(), graph.buffers()}) {
    for (const ValueId id : ids) {
      const Value& value = graph.value(id);
      if (!state.contains(value.name)) state.emplace(value.name, initial_tensor(value, seed));
    }
  }
  return state;
}

}  // namespace rookery
