// What transformers are made of: types, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "models/base/error.hpp"
#include "models/graph/graph.hpp"
#include "tests/models/graph/ops/infer.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// The shape of the op's first output at a batch of two.
Shape inferred(const std::string& type, const Attributes& attributes, const Types& inputs) {
  return infer(type, attributes, inputs).front().shape;
}

TEST(MatMul, HasTheShapesOfNumpy) {
  EXPECT_EQ(inferred("MatMul", {}, {f32({3, 4}), f32({4, 5})}), (Shape{3, 5}));
  EXPECT_EQ(inferred("MatMul", {}, {f32({kBatch, 3, 4}), f32({4, 5})}), (Shape{2, 3, 5}));
  EXPECT_EQ(inferred("MatMul", {}, {f32({kBatch, 1, 3, 4}), f32({7, 4, 5})}), (Shape{2, 7, 3, 5}));
  EXPECT_EQ(inferred("MatMul", {}, {f32({4}), f32({4})}), Shape());
  EXPECT_EQ(inferred("MatMul", {}, {f32({4}), f32({6, 4, 5})}), (Shape{6, 5}));
  EXPECT_EQ(inferred("MatMul", {}, {f32({6, 3, 4}), f32({4})}), (Shape{6, 3}));
}

TEST(MatMul, WhatDoesNotFitIsRefused) {
  expect_refused("MatMul", {}, {f32({3, 4}), f32({5, 4})}, "4 columns times 5 rows");
  expect_refused("MatMul", {}, {f32({3, 4}), f32({3})}, "4 columns times 3 rows");
  expect_refused("MatMul", {}, {f32({2, 3, 4}), f32({3, 4, 5})}, "do not broadcast");
  expect_refused("MatMul", {}, {f32({}), f32({4})}, "scalar");
  expect_refused("MatMul", {}, {f32({3, 4})}, "two inputs");
  expect_refused("MatMul", {}, {f32({3, 4}), {DType::kI64, {4, 5}}}, "of f32");
}

TEST(LayerNormalization, HostileAttributesAndShapesAreRefused) {
  const TensorType x = f32({kBatch, 5, 4});
  EXPECT_EQ(inferred("LayerNormalization", {}, {x, f32({4})}), (Shape{2, 5, 4}));
  EXPECT_EQ(inferred("LayerNormalization", {{"axis", std::int64_t{1}}}, {x, f32({5, 4}), f32({5, 4})}),
            (Shape{2, 5, 4}));
  expect_refused("LayerNormalization", {{"axis", std::int64_t{3}}}, {x, f32({4})}, "axis 3 of rank 3");
  expect_refused("LayerNormalization", {{"axis", std::int64_t{-4}}}, {x, f32({4})}, "axis -4");
  expect_refused("LayerNormalization", {{"axis", 1.0F}}, {x, f32({4})}, "wrong type");
  expect_refused("LayerNormalization", {}, {x, f32({5})}, "input 1 must be f32[4]");
  expect_refused("LayerNormalization", {}, {x, f32({4}), f32({1})}, "input 2 must be f32[4]");
  expect_refused("LayerNormalization", {}, {x}, "a scale");
  for (const float epsilon :
       {-1.0F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    expect_refused("LayerNormalization", {{"epsilon", epsilon}}, {x, f32({4})}, "epsilon");
}

TEST(GroupNormalization, HostileAttributesAndShapesAreRefused) {
  const TensorType x = f32({kBatch, 6, 4, 4});
  const TensorType c = f32({6});
  EXPECT_EQ(inferred("GroupNormalization", {{"num_groups", std::int64_t{3}}}, {x, c, c}),
            (Shape{2, 6, 4, 4}));
  for (const std::int64_t groups : {-1, 0, 4, 12})
    expect_refused("GroupNormalization", {{"num_groups", groups}}, {x, c, c}, "groups of 6 channels");
  expect_refused("GroupNormalization", {}, {x, c, c}, "0 groups");
  expect_refused("GroupNormalization", {{"num_groups", std::int64_t{3}}}, {x, f32({3}), c}, "input 1");
  expect_refused("InstanceNormalization", {}, {x, c, f32({3})}, "input 2 must be f32[6]");
  expect_refused("InstanceNormalization", {}, {x, c}, "scale and bias");
  expect_refused("InstanceNormalization", {{"epsilon", -1.0F}}, {x, c, c}, "epsilon");
}

TEST(Reductions, HostileAttributesAreRefused) {
  using Axes = std::vector<std::int64_t>;
  const TensorType x = f32({kBatch, 3, 4});
  EXPECT_EQ(inferred("ReduceSum", {}, {x}), (Shape{1, 1, 1}));
  EXPECT_EQ(inferred("ReduceMean", {{"axes", Axes{-1, 1}}}, {x}), (Shape{2, 1, 1}));
  EXPECT_EQ(inferred("ReduceMax", {{"axes", Axes{1}}, {"keepdims", std::int64_t{0}}}, {x}), (Shape{2, 4}));
  EXPECT_EQ(inferred("ReduceMax", {{"keepdims", std::int64_t{0}}}, {x}), Shape());
  for (const char* type : {"ReduceMax", "ReduceMean", "ReduceSum"}) {
    expect_refused(type, {{"axes", Axes{3}}}, {x}, "axis 3 of rank 3");
    expect_refused(type, {{"axes", Axes{-4}}}, {x}, "axis -4");
    expect_refused(type, {{"axes", Axes{1, -2}}}, {x}, "twice");
    expect_refused(type, {{"axes", std::int64_t{1}}}, {x}, "wrong type");
    expect_refused(type, {{"keepdims", std::int64_t{2}}}, {x}, "keepdims is 2");
    expect_refused(type, {}, {{DType::kI64, {3}}}, "of f32");
  }
}

TEST(Attention, HasTheShapesOfItsForms) {
  const Attributes two_heads{{"num_heads", std::int64_t{2}}};
  EXPECT_EQ(inferred("Attention", two_heads, {f32({kBatch, 3, 8}), f32({kBatch, 5, 8}), f32({kBatch, 5, 6})}),
            (Shape{2, 3, 6}));
  EXPECT_EQ(
      inferred("Attention", {}, {f32({kBatch, 4, 3, 8}), f32({kBatch, 4, 5, 8}), f32({kBatch, 4, 5, 6})}),
      (Shape{2, 4, 3, 6}));
}

TEST(Attention, HostileAttributesAndShapesAreRefused) {
  const TensorType q = f32({kBatch, 3, 8});
  const std::vector<TensorType> qkv{q, q, q};
  const auto with = [](const std::string& key, Attribute value) {
    Attributes attributes{{"num_heads", std::int64_t{2}}};
    attributes[key] = std::move(value);
    return attributes;
  };
  expect_refused("Attention", {}, qkv, "num_heads is 0");
  expect_refused("Attention", with("num_heads", std::int64_t{-2}), qkv, "num_heads is -2");
  expect_refused("Attention", with("num_heads", std::int64_t{3}), qkv, "8 numbers for 3 heads");
  expect_refused("Attention", with("num_heads", 2.0F), qkv, "wrong type");
  expect_refused("Attention", with("is_causal", std::int64_t{2}), qkv, "is_causal is 2");
  for (const float bad :
       {0.0F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    expect_refused("Attention", with("scale", bad), qkv, "scale");
  for (const float bad : {-0.5F, 1.0F, std::numeric_limits<float>::quiet_NaN()})
    expect_refused("Attention", with("ratio", bad), qkv, "ratio");
  const Attributes two = with("ratio", 0.0F);
  expect_refused("Attention", two, {q, q}, "needs q, k and v");
  expect_refused("Attention", two, {q, q, f32({kBatch, 8})}, "does not go with");
  expect_refused("Attention", two, {q, f32({kBatch, 3, 4}), q}, "do not go together");
  expect_refused("Attention", two, {q, q, f32({kBatch, 4, 8})}, "do not go together");
  expect_refused("Attention", two, {f32({3, 8}), f32({3, 8}), f32({3, 8})}, "[batch, rows, width]");
  expect_refused("Attention", two, {q, q, q, f32({5, 3})}, "broadcast");
  expect_refused("Attention", two, {q, q, q, f32({1, kBatch, 2, 3, 3})}, "broadcast");
  expect_refused("Attention", two, {q, q, q, {DType::kI64, {3, 3}}}, "f32 or bool");
}

}  // namespace
}  // namespace rookery
