// The types that an op by itself makes of its inputs, and what it refuses.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "models/graph/graph.hpp"

namespace rookery {

using Attributes = std::map<std::string, Attribute>;
using Integers = std::vector<std::int64_t>;
using Types = std::vector<TensorType>;

constexpr std::int64_t kHuge = std::int64_t{1} << 60;

inline TensorType f32(const Shape& shape) {
  return {DType::kF32, shape};
}

// Types of the outputs at a batch of two.
inline Types infer(const std::string& type, const Attributes& attributes, const Types& inputs,
                   int outputs = 1) {
  Graph graph;
  Op op{.name = "op", .type = type, .inputs = {}, .outputs = {}, .attributes = attributes};
  for (const TensorType& input : inputs)
    op.inputs.push_back(graph.add_input("x" + std::to_string(op.inputs.size()), input));
  std::vector<std::string> names;
  for (int i = 0; i < outputs; ++i) names.push_back("y" + std::to_string(i));
  const OpId id = graph.add_op(std::move(op), names);
  const Types types = graph.types(2);
  Types result;
  for (const ValueId output : graph.op(id).outputs) result.push_back(types[output]);
  return result;
}

// The error names the op and holds `because`.
inline void expect_refused(const std::string& type, const Attributes& attributes, const Types& inputs,
                           const std::string& because, int outputs = 1) {
  EXPECT_THAT([&] { infer(type, attributes, inputs, outputs); },
              testing::ThrowsMessage<ConfigError>(
                  testing::AllOf(testing::HasSubstr("op 'op' (" + type), testing::HasSubstr(because))))
      << type;
}

}  // namespace rookery
