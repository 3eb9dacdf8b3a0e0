#include "models/graph/initialize.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/error.hpp"
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

void check_state(const Graph& graph, const StateDict& state) {
  std::vector<std::string> problems;
  std::size_t expected = 0;
  for (const auto& ids : {graph.parameters(), graph.buffers()}) {
    for (const ValueId id : ids) {
      const Value& value = graph.value(id);
      const auto found = state.find(value.name);
      ++expected;
      if (found == state.end()) {
        problems.push_back(fmt::format("'{}' is missing", value.name));
      } else if (found->second.type() != value.type) {
        problems.push_back(fmt::format("'{}' is {}, the model has {}", value.name,
                                       found->second.type().to_string(), value.type.to_string()));
      }
    }
  }
  if (state.size() + problems.size() > expected) {
    for (const auto& [name, tensor] : state) {
      const std::optional<ValueId> id = graph.find(name);
      const auto is_state = [](ValueKind kind) {
        return kind == ValueKind::kParameter || kind == ValueKind::kBuffer;
      };
      if (!id || !is_state(graph.value(*id).kind)) {
        problems.push_back(fmt::format("'{}' is not in the model", name));
      }
    }
  }
  if (!problems.empty()) throw DataError(fmt::format("{}", fmt::join(problems, "; ")));
}

}  // namespace rookery
