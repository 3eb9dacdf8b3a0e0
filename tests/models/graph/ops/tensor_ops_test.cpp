// Operators that move, join, take and choose elements: types, hostile attributes, gradients in a graph.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "models/base/error.hpp"
#include "models/graph/op_definition.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/ops/resize.hpp"
#include "models/graph/passes/differentiate.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/passes/memory/memory_plan.hpp"
#include "tests/models/graph/ops/infer.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

void expect_shape(const Shape& expected, const std::string& type, const Attributes& attributes,
                  const Types& inputs) {
  EXPECT_EQ(infer(type, attributes, inputs)[0].shape.to_string(), expected.to_string()) << type;
}

TEST(ShapeOps, ShapesAreThoseOfOnnx) {
  const Types x{f32({kBatch, 3, 4})};
  expect_shape({2, 12}, "Reshape", {{"shape", Integers{0, -1}}}, x);
  expect_shape({2, 2, 2, 3}, "Reshape", {{"shape", Integers{-1, 2, 2, 3}}}, x);
  expect_shape({}, "Reshape", {{"shape", Integers{}}}, {f32({1, 1})});
  expect_shape({2, 4}, "Squeeze", {{"axes", Integers{1, -1}}}, {f32({kBatch, 1, 4, 1})});
  expect_shape({1, 2, 3, 4, 1}, "Unsqueeze", {{"axes", Integers{0, -1}}}, x);
  expect_shape({4, 3, 2}, "Transpose", {}, x);
  expect_shape({2, 4, 3}, "Transpose", {{"perm", Integers{0, 2, 1}}}, x);
  expect_shape({5, 2, 3, 4}, "Expand", {{"shape", Integers{5, 1, 1, 4}}}, x);
  expect_shape({2, 9, 4}, "Tile", {{"repeats", Integers{1, 3, 1}}}, x);
}

TEST(ShapeOps, HostileAttributesAreErrors) {
  const Types x{f32({kBatch, 3, 4})};
  expect_refused("Reshape", {}, x, "no attribute 'shape'");
  expect_refused("Reshape", {{"shape", Integers{-1, -1}}}, x, "dimension 1 is -1");
  expect_refused("Reshape", {{"shape", Integers{-2, 12}}}, x, "dimension 0 is -2");
  expect_refused("Reshape", {{"shape", Integers{5, 5}}}, x, "24 elements");
  expect_refused("Reshape", {{"shape", Integers{-1, 5}}}, x, "24 elements");
  expect_refused("Reshape", {{"shape", Integers{0, 12, 1, 0}}}, x, "rank 3");
  expect_refused("Reshape", {{"shape", Integers{kHuge, kHuge}}}, x, "no usable number");
  expect_refused("Reshape", {{"shape", Integers{kHuge, 16, -1}}}, x, "no usable number");
  expect_refused("Reshape", {{"shape", Integers(9, 1)}}, x, "9 dimensions");
  expect_refused("Reshape", {{"shape", std::int64_t{24}}}, x, "wrong type");
  expect_refused("Reshape", {{"shape", Integers{24}}, {"allowzero", std::int64_t{1}}}, x, "allowzero");
  expect_refused("Squeeze", {{"axes", Integers{1}}}, x, "axis 1 has 3 elements");
  expect_refused("Squeeze", {{"axes", Integers{3}}}, x, "axis 3 of rank 3");
  expect_refused("Squeeze", {{"axes", Integers{kLeast}}}, x, "of rank 3");
  expect_refused("Squeeze", {}, x, "axes");
  expect_refused("Unsqueeze", {{"axes", Integers{0, 0}}}, x, "twice");
  expect_refused("Unsqueeze", {{"axes", Integers{5}}}, x, "axis 5 of rank 4");
  expect_refused("Unsqueeze", {{"axes", Integers{0, 1, 2, 3, 4, 5}}}, x, "9 dimensions");
  expect_refused("Transpose", {{"perm", Integers{0, 1}}}, x, "no order of the 3 axes");
  expect_refused("Transpose", {{"perm", Integers{0, 1, 1}}}, x, "twice");
  expect_refused("Transpose", {{"perm", Integers{0, 1, 3}}}, x, "axis 3 of rank 3");
  expect_refused("Transpose", {{"perm", Integers{0, 1, -1}}}, x, "no order");
  expect_refused("Expand", {{"shape", Integers{kHuge, 1, 1, 1}}}, x, "no usable number");
  expect_refused("Expand", {{"shape", Integers{-5, 1, 1, 1}}}, x, "no usable number");
  expect_refused("Expand", {{"shape", Integers{2, 3, 5}}}, x, "do not broadcast");
  expect_refused("Tile", {{"repeats", Integers{1, -1, 1}}}, x, "-1 times");
  expect_refused("Tile", {{"repeats", Integers{1, 1}}}, x, "2 repeats for 3 axes");
  expect_refused("Tile", {{"repeats", Integers{1, kMost, 1}}}, x, "too large");
  expect_refused("Tile", {{"repeats", Integers{kHuge, 1, 1}}}, x, "no usable number");
}

TEST(PartOps, ShapesAreThoseOfOnnx) {
  const Types x{f32({kBatch, 5, 4})};
  expect_shape({2, 8, 4}, "Concat", {{"axis", std::int64_t{-2}}}, {f32({kBatch, 5, 4}), f32({kBatch, 3, 4})});
  expect_shape({2, 2, 2}, "Slice",
               {{"starts", Integers{-1, 1}},
                {"ends", Integers{kLeast, 4}},
                {"axes", Integers{1, 2}},
                {"steps", Integers{-3, 2}}},
               x);
  expect_shape({2, 0, 4}, "Slice", {{"starts", Integers{3}}, {"ends", Integers{2}}, {"axes", Integers{1}}},
               x);
  expect_shape({2, 5, 4}, "Slice",
               {{"starts", Integers{kLeast}}, {"ends", Integers{kMost}}, {"axes", Integers{2}}}, x);
  expect_shape({2, 4, 7}, "Pad", {{"pads", Integers{0, -2, 1, 0, 1, 2}}}, x);
  expect_shape({2, 5, 4}, "Trilu", {}, x);
  const Types parts = infer("Split", {{"axis", std::int64_t{1}}, {"split", Integers{1, 4}}}, x, 2);
  EXPECT_EQ(parts[0].shape, (Shape{2, 1, 4}));
  EXPECT_EQ(parts[1].shape, (Shape{2, 4, 4}));
}

TEST(PartOps, HostileAttributesAreErrors) {
  const Types x{f32({kBatch, 5, 4})};
  const Attributes axis{{"axis", std::int64_t{1}}};
  expect_refused("Concat", {}, x, "no attribute 'axis'");
  expect_refused("Concat", {{"axis", std::int64_t{3}}}, x, "axis 3 of rank 3");
  expect_refused("Concat", axis, {x[0], f32({kBatch, 5, 3})}, "cannot be joined");
  expect_refused("Concat", axis, {x[0], {DType::kI64, {kBatch, 5, 4}}}, "cannot be joined");
  expect_refused("Concat", axis, {f32({1, kMost, 0}), f32({1, kMost, 0})}, "cannot be joined");
  expect_refused("Split", {{"axis", std::int64_t{1}}}, x, "5 elements do not split into 2", 2);
  expect_refused("Split", {{"axis", std::int64_t{1}}, {"split", Integers{5}}}, x, "1 sizes for 2", 2);
  expect_refused("Split", {{"axis", std::int64_t{1}}, {"split", Integers{6, -1}}}, x, "do not make up 5", 2);
  expect_refused("Split", {{"axis", std::int64_t{1}}, {"split", Integers{kMost, kMost}}}, x,
                 "do not make up 5", 2);
  expect_refused("Split", {{"axis", std::int64_t{1}}, {"split", Integers{2, 2}}}, x, "do not make up 5", 2);
  expect_refused("Split", {{"axis", std::int64_t{-4}}}, x, "axis -4 of rank 3", 2);
  const Attributes slice{{"starts", Integers{0}}, {"ends", Integers{1}}};
  const auto with = [](Attributes attributes, const std::string& key, const Integers& value) {
    attributes[key] = value;
    return attributes;
  };
  expect_refused("Slice", {}, x, "0 starts");
  expect_refused("Slice", with(slice, "steps", {0}), x, "a step of 0");
  expect_refused("Slice", with(slice, "steps", {kLeast}), x, "a step of");
  expect_refused("Slice", with(slice, "axes", {3}), x, "axis 3 of rank 3");
  expect_refused("Slice", with(slice, "ends", {1, 2}), x, "1 starts, 2 ends");
  expect_refused("Slice", {{"starts", Integers{0, 0}}, {"ends", Integers{1, 1}}, {"axes", Integers{1, -2}}},
                 x, "twice");
  expect_refused("Pad", {}, x, "0 pads for 3 axes");
  expect_refused("Pad", {{"pads", Integers{0, 0, 0, 0, kHuge, 0}}}, x, "a pad of");
  expect_refused("Pad", {{"pads", Integers{0, -6, 0, 0, 0, 0}}}, x, "a pad of -6");
  expect_refused("Pad", {{"pads", Integers{0, -3, 0, 0, -3, 0}}}, x, "leave nothing");
  expect_refused("Pad", {{"pads", Integers{0, 5, 0, 0, 0, 0}}, {"mode", std::string("reflect")}}, x,
                 "a pad of 5");
  expect_refused("Pad", {{"pads", Integers(6, 0)}, {"mode", std::string("wrap")}}, x, "'wrap'");
  expect_refused("Pad", {{"pads", Integers(6, 0)}, {"constant_value", std::int64_t{1}}}, x, "wrong type");
  expect_refused("Pad", {{"pads", Integers(2, 0)}, {"constant_value", 1.0F}}, {{DType::kI64, {kBatch}}},
                 "of f32");
  expect_refused("Trilu", {}, {f32({kBatch})}, "matrices");
  expect_refused("Trilu", {{"k", 1.0F}}, x, "wrong type");
}

TEST(IndexOps, ShapesAndWrongTypes) {
  const TensorType table = f32({7, 3});
  const TensorType ids{DType::kI64, {kBatch, 5}};
  expect_shape({2, 5, 3}, "Gather", {}, {table, ids});
  expect_shape({7, 2, 5}, "Gather", {{"axis", std::int64_t{-1}}}, {table, ids});
  expect_shape({2, 5}, "GatherElements", {}, {f32({4, 6}), ids});
  expect_refused("Gather", {}, {table, f32({kBatch, 5})}, "indices of i64 or i32");
  expect_refused("Gather", {}, {table}, "indices");
  expect_refused("Gather", {{"axis", std::int64_t{2}}}, {table, ids}, "axis 2 of rank 2");
  expect_refused("Gather", {}, {f32({}), ids}, "axis 0 of rank 0");
  expect_refused("Gather", {}, {f32({1, kHuge, 1}), {DType::kI64, {kHuge}}}, "no usable number");
  expect_refused("GatherElements", {}, {f32({4, 4}), ids}, "do not fit");
  expect_refused("GatherElements", {}, {f32({4}), ids}, "do not fit");
}

TEST(SelectionOps, WrongTypesAreErrors) {
  const TensorType x = f32({kBatch, 3});
  const TensorType yes{DType::kBool, {kBatch, 3}};
  const TensorType ids{DType::kI64, {kBatch, 3}};
  for (const char* type : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}) {
    EXPECT_EQ(infer(type, {}, {x, f32({3})})[0], (TensorType{DType::kBool, {2, 3}}));
    expect_refused(type, {}, {x, ids}, "two inputs of one type");
    expect_refused(type, {}, {x}, "two inputs");
    expect_refused(type, {}, {x, f32({4})}, "do not broadcast");
  }
  expect_refused("Less", {}, {yes, yes}, "no order");
  EXPECT_NO_THROW(infer("Equal", {}, {yes, yes}));
  for (const char* type : {"And", "Or"}) expect_refused(type, {}, {yes, x}, "of bool");
  expect_refused("Not", {}, {x}, "of bool");
  expect_refused("Where", {}, {x, x, x}, "condition of bool");
  expect_refused("Where", {}, {yes, x, ids}, "one type");
  expect_refused("Max", {}, {}, "needs an input");
  expect_refused("Max", {}, {x, ids}, "one type");
  expect_refused("Min", {}, {yes, yes}, "one type");
  expect_refused("Cast", {{"to", std::string("f16")}}, {x}, "no type 'f16'");
  expect_refused("Cast", {}, {x}, "no type ''");
  EXPECT_EQ(infer("Cast", {{"to", std::string("i32")}}, {x})[0].dtype, DType::kI32);
  EXPECT_EQ(infer("Add", {}, {ids, ids})[0].dtype, DType::kI64);
  expect_refused("Add", {}, {ids, x}, "one type");
  expect_refused("Pow", {}, {ids, ids}, "of f32");
  expect_refused("Relu", {}, {ids}, "of f32");
}

// As PyTorch writes mode="nearest".
Op nearest(float scale) {
  Op op{.name = "resize", .type = "Resize", .inputs = {0}, .outputs = {}, .attributes = {}};
  op.attributes["scales"] = std::vector<float>{1, 1, scale};
  op.attributes["mode"] = std::string("nearest");
  op.attributes["coordinate_transformation_mode"] = std::string("asymmetric");
  op.attributes["nearest_mode"] = std::string("floor");
  return op;
}

using Pixel = std::array<std::int64_t, 3>;  // of sizes from, to: the one at
const std::vector<Pixel> kPixelsBefore{{14, 46, 23}, {26, 22, 11}, {26, 44, 22}, {28, 46, 23}, {30, 58, 29},
                                       {39, 33, 11}, {39, 33, 22}, {52, 22, 11}, {52, 44, 11}, {52, 44, 22},
                                       {54, 38, 19}, {56, 46, 23}, {58, 54, 27}, {60, 58, 29}};

// Sizes are written as scales, which the nearest float is a little below or above. The pixels are those of
// PyTorch, which multiplies floats, and so takes the one before where a product is just below a whole number.
TEST(ResizeOps, ScalesOfSizesMeetTheseSizesAndPixels) {
  std::vector<Pixel> before;
  for (std::int64_t from = 1; from <= 60; ++from) {
    for (std::int64_t to = 1; to <= 60; ++to) {
      const Op op = nearest(static_cast<float>(to) / static_cast<float>(from));
      ASSERT_EQ(resized_shape(op, {1, 1, from}), (Shape{1, 1, to})) << from;
      const std::vector<Sample> samples = samples_along(op, 2, from, to);
      for (std::int64_t at = 0; at < to; ++at) {
        const std::int64_t exact = at * from / to;
        if (samples[at].low == exact - 1) before.push_back({from, to, at});
        ASSERT_TRUE(samples[at].low == exact || samples[at].low == exact - 1) << from << " " << to;
      }
    }
  }
  EXPECT_THAT(before, testing::ElementsAreArray(kPixelsBefore));
}

// 6 / 1.2 is 5, which 6 / 1.2F just misses.
TEST(ResizeOps, FactorsAreThoseThatWereWritten) {
  const std::vector<Sample> samples = samples_along(nearest(1.2F), 2, 7, 8);
  EXPECT_EQ(samples[6].low, 5);
}

TEST(ResizeOps, HostileAttributesAreErrors) {
  const Types x{f32({kBatch, 3, 4, 5})};
  const auto with = [](std::vector<float> scales, const char* key = nullptr, const char* word = "") {
    Attributes attributes{{"scales", std::move(scales)}};
    if (key != nullptr) attributes[key] = std::string(word);
    return attributes;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_shape({2, 3, 8, 2}, "Resize", with({1, 1, 2, 0.5F}), x);
  expect_refused("Resize", {}, x, "scales");
  expect_refused("Resize", {{"scales", Integers{1, 1, 2, 2}}}, x, "scales");
  expect_refused("Resize", with({1, 1, 2}), x, "4 scales");
  expect_refused("Resize", with({2, 1, 2, 2}), x, "first two");
  for (const float scale : {0.0F, -1.0F, nan, 1e30F, 0.1F, std::numeric_limits<float>::infinity()})
    expect_refused("Resize", with({1, 1, 1, scale}), x, "a scale of");
  expect_refused("Resize", with({1, 1, 2, 2}, "mode", "cubic"), x, "'cubic'");
  expect_refused("Resize", with({1, 1, 2, 2}, "nearest_mode", "up"), x, "'up'");
  expect_refused("Resize", with({1, 1, 2, 2}, "coordinate_transformation_mode", "tf_crop_and_resize"), x,
                 "'tf_crop_and_resize'");
  expect_refused("Resize", with({1, 1}), {f32({kBatch, 3})}, "its input");
  expect_refused("Resize", with({1, 1, 1, 1}), {{DType::kI64, {kBatch, 3, 4, 5}}}, "f32");
}

TEST(IndexOps, PointsMustFitTheData) {
  const auto of = [](const Shape& points) { return Types{f32({kBatch, 3, 4}), {DType::kI64, points}}; };
  const Attributes batched{{"batch_dims", std::int64_t{1}}};
  expect_shape({5, 3, 4}, "GatherND", {}, of({5, 1}));
  expect_shape({3}, "GatherND", {}, of({3, 3}));
  expect_shape({2, 7}, "GatherND", batched, of({kBatch, 7, 2}));
  expect_refused("GatherND", {}, of({5, 4}), "do not fit");
  expect_refused("GatherND", {}, of({5, 0}), "do not fit");
  expect_refused("GatherND", {}, of({}), "do not fit");
  expect_refused("GatherND", batched, of({3, 7, 2}), "do not fit");
  expect_refused("GatherND", batched, of({2}), "do not fit");
  expect_refused("GatherND", {{"batch_dims", std::int64_t{-1}}}, of({kBatch, 2}), "do not fit");
  const auto with = [&](const Shape& updates) {
    Types inputs = of({5, 1});
    inputs.push_back(f32(updates));
    return inputs;
  };
  expect_shape({2, 3, 4}, "ScatterND", {}, with({5, 3, 4}));
  expect_refused("ScatterND", {}, with({5, 3}), "updates are");
  expect_refused("ScatterND", {{"reduction", std::string("mul")}}, with({5, 3, 4}), "reduction is 'mul'");
}

TEST(ReductionOps, CumSumNeedsAnAxis) {
  expect_shape({2, 3}, "CumSum", {{"axis", std::int64_t{-1}}}, {f32({kBatch, 3})});
  expect_refused("CumSum", {}, {f32({kBatch, 3})}, "no attribute 'axis'");
  expect_refused("CumSum", {{"axis", std::int64_t{2}}}, {f32({kBatch, 3})}, "axis 2 of rank 2");
  expect_refused("CumSum", {{"axis", std::int64_t{0}}, {"reverse", std::int64_t{2}}}, {f32({kBatch, 3})},
                 "reverse is 2");
  expect_refused("CumSum", {{"axis", std::int64_t{0}}}, {{DType::kBool, {kBatch}}}, "needs one input");
}

// Indices, conditions and what is made of integers have no gradient; what only they depend on needs none.
TEST(TensorOps, GradientsGoThroughRealNumbersAlone) {
  GraphBuilder b;
  const ValueId ids = b.input("ids", {3}, DType::kI64);
  ValueId x = b.embedding("embed", ids, 7, 4);
  const ValueId whole = b.cast("whole", b.layer_norm("chooser", x), DType::kI64);
  x = b.where("chosen", b.apply("positive", "Greater", {whole, b.constant("zero", {1}, Integers{0})}), x,
              b.full("nothing", {1}, 0));
  Graph graph = b.finish(b.linear("head", b.reshape("flat", x, {0, -1}), 5));
  add_loss(graph, "mse");
  const TrainingGraph training = differentiate(graph, {});
  EXPECT_TRUE(training.parameter_gradients.contains(graph.at("embed.weight")));
  EXPECT_FALSE(training.parameter_gradients.contains(graph.at("chooser.weight")))
      << "nothing comes back through integers";
}

// Where only some parts of a Split matter the gradient of the others is zero.
TEST(TensorOps, AGradientNeedsOnePartAlone) {
  GraphBuilder b;
  const std::vector<ValueId> parts = b.split("split", b.linear("dense", b.input("x", {4}), 6), {2, 4}, 1);
  Graph graph = b.finish(parts[1]);
  add_loss(graph, "mse");
  const TrainingGraph training = differentiate(graph, {});
  const auto grad = std::ranges::find(training.graph.ops(), "split.SplitGrad", &Op::name);
  ASSERT_NE(grad, training.graph.ops().end());
  ASSERT_EQ(grad->inputs.size(), 2U);
  EXPECT_EQ(grad->inputs[0], kNoValue);
  EXPECT_NE(grad->inputs[1], kNoValue);
}

TEST(TensorOps, ViewsShareMemory) {
  GraphBuilder b;
  ValueId x = b.linear("dense", b.input("x", {4}), 6);
  const ValueId first = x;
  x = b.squeeze("squeeze", b.unsqueeze("unsqueeze", b.reshape("reshape", x, {0, 2, 3}), {1}), {1});
  const Graph graph = b.finish(x);
  EXPECT_EQ(memory_owner(graph, x), first);
}

}  // namespace
}  // namespace rookery
