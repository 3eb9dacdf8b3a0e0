// Sliding windows: what hostile attributes are answered, and shapes worked out by hand.
#include "models/graph/ops/window.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/base/error.hpp"
#include "models/graph/op_definition.hpp"
#include "models/graph/ops/builder.hpp"
#include "tests/models/graph/ops/infer.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<TensorType> infer_f32(const std::string& type, const Attributes& attributes,
                                  const std::vector<Shape>& inputs) {
  std::vector<TensorType> types;
  Op op{.name = "op", .type = type, .inputs = {}, .outputs = {}, .attributes = attributes};
  for (const Shape& shape : inputs) {
    op.inputs.push_back(static_cast<ValueId>(types.size()));
    types.push_back({DType::kF32, shape});
  }
  return op_definition(type).infer(op, types);
}

Shape shape_of(const std::string& type, const Attributes& attributes, const std::vector<Shape>& inputs) {
  return infer_f32(type, attributes, inputs).at(0).shape;
}

struct Refusal {
  Attributes attributes;
  std::vector<std::string> words;
};

// What an attribute of a refusal says takes the place of what the legal ones say.
void expect_refusals(const std::string& type, const std::vector<Shape>& inputs, const Attributes& legal,
                     const std::vector<Refusal>& refusals) {
  EXPECT_NO_THROW(infer_f32(type, legal, inputs));
  for (const Refusal& refusal : refusals) {
    Attributes attributes = refusal.attributes;
    attributes.insert(legal.begin(), legal.end());
    for (const std::string& word : refusal.words) {
      EXPECT_THAT([&] { infer_f32(type, attributes, inputs); }, ThrowsMessage<ConfigError>(HasSubstr(word)))
          << type;
    }
  }
}

// Of all that slides a window over 8 x 8 or over 8 elements, with a kernel of 3 everywhere.
std::vector<Refusal> common_refusals(std::size_t axes) {
  const auto all = [&](std::int64_t number) { return Integers(axes, number); };
  return {
      {{{"strides", all(0)}}, {"'strides'", "0 is not from 1"}},
      {{{"strides", all(-2)}}, {"'strides'", "-2"}},
      {{{"strides", all(kHuge)}}, {"'strides'", std::to_string(kHuge)}},
      {{{"strides", Integers(axes + 1, 1)}}, {"'strides'", std::to_string(axes + 1) + " numbers"}},
      {{{"strides", std::int64_t{1}}}, {"strides"}},
      {{{"pads", all(1)}}, {"'pads'", std::to_string(axes) + " numbers, not " + std::to_string(2 * axes)}},
      {{{"pads", Integers(2 * axes, -1)}}, {"'pads'", "-1"}},
      {{{"pads", Integers(2 * axes, kHuge)}}, {"'pads'", std::to_string(kHuge)}},
      {{{"auto_pad", std::string("SOMEHOW")}}, {"'auto_pad'", "'SOMEHOW'"}},
      {{{"kernel_shape", all(0)}}, {"'kernel_shape'"}},
      {{{"kernel_shape", all(-3)}}, {"'kernel_shape'"}},
      {{{"kernel_shape", all(kHuge)}}, {"'kernel_shape'"}},
      {{{"kernel_shape", Integers{}}}, {"'kernel_shape'", "0 numbers"}},
  };
}

std::vector<Refusal> refusals_of_dilations(std::size_t axes) {
  const auto all = [&](std::int64_t number) { return Integers(axes, number); };
  return {
      {{{"dilations", all(0)}}, {"'dilations'", "0 is not from 1"}},
      {{{"dilations", all(-1)}}, {"'dilations'", "-1"}},
      {{{"dilations", all(kHuge)}}, {"'dilations'", std::to_string(kHuge)}},
      {{{"dilations", Integers{1, 1, 1}}}, {"'dilations'", "3 numbers"}},
  };
}

TEST(Windows, HostileAttributesOfConvolutions) {
  const std::vector<std::vector<Shape>> inputs{{{2, 4, 8}, {6, 2, 3}}, {{2, 4, 8, 8}, {6, 2, 3, 3}}};
  for (std::size_t axes = 1; axes <= 2; ++axes) {
    const Attributes legal{{"group", std::int64_t{2}}};
    const auto& shapes = inputs[axes - 1];
    expect_refusals("Conv", shapes, legal, common_refusals(axes));
    expect_refusals("Conv", shapes, legal, refusals_of_dilations(axes));
    expect_refusals("Conv", shapes, legal,
                    {{{{"group", std::int64_t{0}}}, {"'group'", "0"}},
                     {{{"group", std::int64_t{-2}}}, {"'group'", "-2"}},
                     {{{"group", kHuge}}, {"'group'", std::to_string(kHuge)}},
                     {{{"group", std::int64_t{4}}}, {"'group'", "4 does not divide"}},
                     {{{"group", std::int64_t{3}}}, {"4 input channels", "3 groups"}},
                     {{{"group", 1.0F}}, {"group"}}});
    expect_refusals("Conv", shapes, legal,
                    {{{{"dilations", Integers(axes, 4)}}, {"a window of 9 does not fit into 8"}}});
  }
}

TEST(Windows, HostileAttributesOfTransposedConvolutions) {
  const std::vector<std::vector<Shape>> inputs{{{2, 4, 8}, {4, 3, 3}}, {{2, 4, 8, 8}, {4, 3, 3, 3}}};
  for (std::size_t axes = 1; axes <= 2; ++axes) {
    const Attributes legal{{"group", std::int64_t{2}}};
    const auto& shapes = inputs[axes - 1];
    expect_refusals("ConvTranspose", shapes, legal, common_refusals(axes));
    expect_refusals("ConvTranspose", shapes, legal, refusals_of_dilations(axes));
    const auto all = [&](std::int64_t number) { return Integers(axes, number); };
    expect_refusals(
        "ConvTranspose", shapes, legal,
        {{{{"group", std::int64_t{3}}}, {"'group'", "3 does not divide"}},
         {{{"group", kHuge}}, {"'group'", std::to_string(kHuge)}},
         {{{"output_padding", all(1)}}, {"'output_padding'", "1 is not below stride 1"}},
         {{{"output_padding", all(2)}, {"strides", all(2)}}, {"2 is not below stride 2 or dilation 1"}},
         {{{"output_padding", all(-1)}}, {"'output_padding'", "-1"}},
         {{{"output_padding", all(kHuge)}}, {"'output_padding'", std::to_string(kHuge)}},
         {{{"output_padding", Integers{}}}, {"'output_padding'", "0 numbers"}},
         {{{"output_shape", all(0)}}, {"'output_shape'", "0 is not from 1"}},
         {{{"output_shape", all(11)}}, {"'output_shape'", "11 is more than windows reach over 8", "is 10"}},
         {{{"output_shape", all(kHuge)}}, {"'output_shape'", std::to_string(kHuge)}},
         {{{"output_shape", Integers{1, 1, 1}}}, {"'output_shape'", "3 numbers"}},
         {{{"pads", Integers(2 * axes, 5)}}, {"'pads'", "5 and 5 leave nothing of an output of 10"}}});
  }
  EXPECT_THAT(
      [] {
        infer_f32("ConvTranspose", {}, {{2, 5, 8}, {4, 3, 3}});
      },
      ThrowsMessage<ConfigError>(HasSubstr("5 input channels")));
  EXPECT_THAT(
      [] {
        infer_f32("ConvTranspose", {}, {{2, 4, 8}, {4, 3, 3}, {4}});
      },
      ThrowsMessage<ConfigError>(HasSubstr("bias must be f32[3], not f32[4]")));
}

TEST(Windows, HostileShapesOfConvolutions) {
  const auto refused = [](const std::vector<Shape>& inputs, const std::string& word) {
    EXPECT_THAT([&] { infer_f32("Conv", {}, inputs); }, ThrowsMessage<ConfigError>(HasSubstr(word)));
  };
  refused({{2, 3, 8, 8}}, "needs an input and a weight");
  refused({{2, 3}, {4, 3, 3, 3}}, "not f32[2, 3]");
  refused({{2, 3, 8, 8}, {4, 3, 3}}, "weight must be f32 of rank 4");
  refused({{2, 3, 8, 8}, {4, 3, 3, 3}, {5}}, "bias must be f32[4], not f32[5]");
  refused({{2, 3, 8, 8}, {4, 3, 0, 3}}, "a weight of [4, 3, 0, 3]");
  refused({{2, 3, 8, 8}, {0, 3, 3, 3}}, "a weight of [0, 3, 3, 3]");
  refused({{2, 3, 0, 8}, {4, 3, 3, 3}}, "an image of 0 x 8");
  refused({{2, 3, 2, 8}, {4, 3, 3, 3}}, "a window of 3 does not fit into 2");
  refused({{2, 3, 8, kHuge}, {4, 3, 3, 3}}, "an image of 8 x");
}

TEST(Windows, HostileAttributesOfPools) {
  for (const std::string type : {"MaxPool", "AveragePool"}) {
    for (std::size_t axes = 1; axes <= 2; ++axes) {
      const Shape x = axes == 1 ? Shape{2, 4, 8} : Shape{2, 4, 8, 8};
      const Attributes legal{{"kernel_shape", Integers(axes, 3)}};
      expect_refusals(type, {x}, legal, common_refusals(axes));
      if (type == "MaxPool") expect_refusals(type, {x}, legal, refusals_of_dilations(axes));
      expect_refusals(
          type, {x}, legal,
          {{{{"ceil_mode", std::int64_t{2}}}, {"'ceil_mode'", "2"}},
           {{{"ceil_mode", 1.0F}}, {"ceil_mode"}},
           {{{"pads", Integers(2 * axes, 3)}}, {"'pads'", "3 and 3 are not below the kernel of 3"}}});
      EXPECT_THROW(infer_f32(type, {}, {x}), ConfigError);
      EXPECT_THROW(infer_f32(type, legal, {x, x}), ConfigError);
      EXPECT_THROW(infer_f32(type, legal, {Shape{2, 4}}), ConfigError);
    }
  }
  const Attributes legal{{"kernel_shape", Integers{2}}};
  expect_refusals("AveragePool", {{1, 1, 8}}, legal,
                  {{{{"count_include_pad", std::int64_t{-1}}}, {"'count_include_pad'", "-1"}},
                   {{{"dilations", Integers{2}}}, {"'dilations'"}}});
  // Places -1 and 2 of a single element.
  expect_refusals("MaxPool", {{1, 1, 1}}, {{"kernel_shape", Integers{1}}},
                  {{{{"kernel_shape", Integers{2}}, {"pads", Integers{1, 1}}, {"dilations", Integers{2}}},
                    {"'pads'", "padding alone"}}});
  EXPECT_THROW(infer_f32("GlobalAveragePool", {}, {{2, 3, 0, 4}}), ConfigError);
  EXPECT_THROW(infer_f32("GlobalAveragePool", {}, {{2, 3}}), ConfigError);
}

TEST(Windows, SizesOfOutputs) {
  const auto pool = [](std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                       bool ceil) {
    return shape_of("MaxPool",
                    {{"kernel_shape", Integers{kernel}},
                     {"strides", Integers{stride}},
                     {"pads", Integers{pad, pad}},
                     {"ceil_mode", std::int64_t{ceil}}},
                    {{1, 1, size}})[2];
  };
  EXPECT_EQ(pool(7, 2, 2, 0, false), 3);
  EXPECT_EQ(pool(7, 2, 2, 0, true), 4);
  EXPECT_EQ(pool(7, 3, 3, 1, true), 3);
  EXPECT_EQ(pool(5, 2, 3, 1, true), 2) << "a third window would start in the padding";
  EXPECT_EQ(shape_of("Conv", {{"dilations", Integers{2, 3}}}, {{2, 3, 9, 9}, {4, 3, 3, 3}}),
            (Shape{2, 4, 5, 3}));
  EXPECT_EQ(shape_of("Conv", {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Integers{2}}},
                     {{2, 3, 9}, {4, 3, 4}}),
            (Shape{2, 4, 5}));
  const std::vector<Shape> transposed{{2, 4, 5}, {4, 3, 4}};
  EXPECT_EQ(shape_of("ConvTranspose", {{"strides", Integers{2}}}, transposed), (Shape{2, 3, 12}));
  EXPECT_EQ(shape_of("ConvTranspose",
                     {{"strides", Integers{2}}, {"pads", Integers{1, 2}}, {"output_padding", Integers{1}}},
                     transposed),
            (Shape{2, 3, 10}));
  EXPECT_EQ(shape_of("ConvTranspose", {{"strides", Integers{3}}, {"auto_pad", std::string("SAME_LOWER")}},
                     transposed),
            (Shape{2, 3, 15}));
  EXPECT_EQ(shape_of("ConvTranspose", {{"strides", Integers{2}}, {"output_shape", Integers{13}}}, transposed),
            (Shape{2, 3, 13}));
  EXPECT_EQ(shape_of("GlobalAveragePool", {}, {{2, 3, 4, 5}}), (Shape{2, 3, 1, 1}));
  EXPECT_EQ(shape_of("GlobalAveragePool", {}, {{2, 3, 4}}), (Shape{2, 3, 1}));
}

TEST(Windows, TheIndexOfAMaximumIsAsWideAsItsWindowNeeds) {
  const auto index = [](Integers kernel, const Shape& x) {
    return infer_f32("MaxPool", {{"kernel_shape", std::move(kernel)}}, {x}).at(1).dtype;
  };
  EXPECT_EQ(index({256}, {1, 1, 300}), DType::kU8);
  EXPECT_EQ(index({257}, {1, 1, 300}), DType::kI32);
  EXPECT_EQ(index({16, 16}, {1, 1, 20, 20}), DType::kU8);
  EXPECT_EQ(index({16, 17}, {1, 1, 20, 20}), DType::kI32);
  EXPECT_THAT(
      [&] {
        index({1 << 17, 1 << 17}, {1, 1, 1 << 17, 1 << 17});
      },
      ThrowsMessage<ConfigError>(HasSubstr("'kernel_shape': a window of 17179869184")));
}

}  // namespace
}  // namespace rookery
