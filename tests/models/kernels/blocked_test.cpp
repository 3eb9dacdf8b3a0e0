// Images in blocks of channels: every op computes what it computes on plain ones.
#include <gtest/gtest.h>

#include <algorithm>

#include "models/graph/op_attributes.hpp"
#include "models/kernels/simd/loops/loops.hpp"
#include "models/kernels/threads.hpp"
#include "tests/models/kernels/cases.hpp"

namespace rookery::kernel_tests {
namespace {

// The element at `index` of the blocked image, which is visited in order.
template <typename T>
void to_blocks(const Tensor& plain, Tensor& blocked) {
  const Shape& s = blocked.type().shape;
  std::size_t index = 0;
  for (std::int64_t n = 0; n < s[0]; ++n)
    for (std::int64_t block = 0; block < s[1]; ++block)
      for (std::int64_t h = 0; h < s[2]; ++h)
        for (std::int64_t w = 0; w < s[3]; ++w)
          for (std::int64_t c = 0; c < s[4]; ++c) {
            const std::int64_t place = ((n * s[1] * s[4] + block * s[4] + c) * s[2] + h) * s[3] + w;
            blocked.as<T>()[index++] = plain.as<T>()[place];
          }
}

bool is_image(const TensorType& type) {
  return type.shape.rank() == 4 && type.shape[1] % kChannelBlock == 0;
}

Tensor blocked(const Tensor& plain) {
  Tensor result(plain.type().dtype, blocked_shape(plain.type().shape));
  if (plain.type().dtype == DType::kU8) {
    to_blocks<std::uint8_t>(plain, result);
  } else {
    to_blocks<float>(plain, result);
  }
  return result;
}

// A convolution's weight is no image, whatever its shape.
bool is_weight(const Op& op, std::size_t argument, bool output) {
  if (op.type == "ConvGradWeight") return output;
  return op.type.starts_with("Conv") && !output && argument == 1;
}

OpCase blocked(const OpCase& plain) {
  OpCase test{.op = plain.op,
              .inputs = {},
              .outputs = plain.outputs,
              .in_place = plain.in_place,
              .context = plain.context,
              .seed = plain.seed};
  test.op.attributes["blocked"] = std::int64_t{1};
  for (std::size_t i = 0; i < plain.inputs.size(); ++i) {
    const bool convert = is_image(plain.inputs[i].type()) && !is_weight(plain.op, i, false);
    test.inputs.push_back(convert ? blocked(plain.inputs[i]) : plain.inputs[i].clone());
  }
  for (std::size_t i = 0; i < test.outputs.size(); ++i) {
    if (is_image(test.outputs[i]) && !is_weight(plain.op, i, true))
      test.outputs[i].shape = blocked_shape(test.outputs[i].shape);
  }
  return test;
}

// Compares what `choice` computes on blocks with what the reference computes on plain images; returns the
// latter.
std::vector<Tensor> expect_same(const std::string& choice, const OpCase& plain) {
  auto expected = *run_on("eigen", plain);
  const auto actual = run_on(choice, blocked(plain));
  // Not every convolution has them.
  const bool optional = choice.ends_with("-winograd") || choice.ends_with("-places");
  EXPECT_TRUE(actual || optional) << choice << " " << describe(plain);
  for (std::size_t i = 0; actual && i < expected.size(); ++i) {
    if (plain.op.outputs[i] == kNoValue) continue;
    const bool convert = (*actual)[i].type().shape.rank() == 5;
    EXPECT_LE(difference(convert ? blocked(expected[i]) : expected[i].clone(), (*actual)[i]), 2e-5)
        << choice << " output " << i << " of " << describe(plain);
  }
  return expected;
}

// A Relu that became part of the op.
void expect_rectified(const std::string& choice, const OpCase& plain) {
  OpCase test = blocked(plain);
  std::vector<Tensor> expected = *run_on(choice, test);
  for (float& y : expected[0].as<float>()) y = std::max(y, 0.0F);
  test.op.attributes[kActivation] = "relu";
  EXPECT_TRUE(same_bits(expected[0], (*run_on(choice, test))[0])) << choice << " " << describe(plain);
}

bool has_blocked_convolutions() {
  Random random(1);
  return kernel_of("onednn/blocked", blocked(conv_case({2, 16, 8, 8, 16}, random))) != nullptr;
}

std::vector<std::string> choices(bool convolution) {
  if (!convolution) return {"eigen/blocked", "simd/blocked"};
  if (!has_blocked_convolutions()) return {"eigen/blocked"};
  return {"eigen/blocked", "onednn/blocked", "onednn/blocked-direct", "simd/blocked-places"};
}

TEST(Blocked, ConversionsAreCopiesOnEveryBackend) {
  Random random(4);
  for (const Shape& shape : {Shape{2, 32, 3, 5}, Shape{1, 16, 1, 1}, Shape{3, 48, 7, 8}}) {
    const Tensor plain = random_tensor(shape, random);
    const Tensor in_blocks = blocked(plain);
    for (const char* backend : {"eigen", "simd"}) {
      std::vector<Tensor> from, back;
      from.push_back(plain.clone());
      back.push_back(in_blocks.clone());
      const auto there = run_on(backend, make_case("ToBlocked", {}, std::move(from), {in_blocks.type()}));
      const auto again = run_on(backend, make_case("FromBlocked", {}, std::move(back), {plain.type()}));
      EXPECT_TRUE(same_bits((*there)[0], in_blocks)) << backend;
      EXPECT_TRUE(same_bits((*again)[0], plain)) << backend;
    }
  }
}

TEST(Blocked, Conv) {
  Random random(5);
  const std::vector<ConvSpec> specs{
      {2, 32, 14, 14, 48},
      {3, 16, 8, 8, 16},
      {2, 32, 2, 2, 16},
      {2, 16, 9, 7, 32, {3, 3}, {2, 2}},
      {2, 32, 8, 8, 64, {1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}},
      {2, 16, 8, 9, 16, {3, 3}, {1, 1}, {2, 2}, {2, 2, 2, 2}},
      {2, 16, 8, 8, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1, "NOTSET", false},
      {2, 3, 16, 16, 64, {7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}},
      {2, 1, 8, 8, 16}};
  for (const ConvSpec& spec : specs) {
    const OpCase forward = conv_case(spec, random);
    const auto gradients = product_gradients(forward, random_tensor(forward.outputs[0].shape, random));
    for (const std::string& choice : choices(true)) {
      expect_same(choice, forward);
      for (const GradientOf& gradient : gradients) {
        // The first convolution of a model passes no gradient on.
        if (spec.in % kChannelBlock != 0 && gradient.test.op.type == "ConvGradInput") continue;
        expect_same(choice, gradient.test);
      }
    }
  }
}

TEST(Blocked, ConvOfSmallMapsByPlaces) {
  const std::string best = simd::loops().name;
  const std::vector<ConvSpec> specs{
      {5, 32, 2, 2, 48},
      {4, 16, 4, 4, 32, {3, 3}, {2, 2}},
      {20, 48, 4, 4, 80, {3, 3}, {2, 2}},
      {4, 16, 3, 4, 16, {3, 2}, {1, 1}, {1, 1}, {1, 0, 1, 1}},
      {3, 16, 4, 4, 16, {3, 3}, {1, 1}, {2, 2}, {2, 2, 2, 2}, 1, "NOTSET", false},
      {17, 48, 4, 3, 80, {7, 5}, {1, 1}, {1, 1}, {3, 2, 3, 2}}};  // taps of each offset there is
  for (const char* const* name = simd::loop_names(); *name != nullptr; ++name) {
    ASSERT_TRUE(simd::select_loops(*name));
    Random random(10);
    for (const ConvSpec& spec : specs) {
      const OpCase forward = conv_case(spec, random);
      EXPECT_NE(kernel_of("simd/blocked-places", blocked(forward)), nullptr) << describe(forward);
      expect_same("simd/blocked-places", forward);
      expect_rectified("simd/blocked-places", forward);
      for (const GradientOf& gradient :
           product_gradients(forward, random_tensor(forward.outputs[0].shape, random)))
        expect_same("simd/blocked-places", gradient.test);
    }
    // A tap that lies in the padding everywhere, and too large a map.
    for (const ConvSpec& spec : {ConvSpec{2, 16, 1, 1, 16}, ConvSpec{2, 16, 5, 5, 16}})
      EXPECT_EQ(kernel_of("simd/blocked-places", blocked(conv_case(spec, random))), nullptr);
  }
  simd::select_loops(best.c_str());
}

TEST(Blocked, ConvByWinograd) {
  const std::string best = simd::loops().name;
  const std::vector<ConvSpec> specs{
      {2, 32, 8, 8, 48},
      {3, 16, 7, 10, 16, {3, 3}, {1, 1}, {1, 1}, {0, 2, 1, 0}},
      {2, 48, 5, 4, 32, {3, 3}, {1, 1}, {1, 1}, {2, 2, 2, 2}, 1, "NOTSET", false},
      {1, 16, 3, 3, 16, {3, 3}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
      {5, 48, 2, 2, 32},  // one tile, whose padding is left out
      {3, 16, 2, 2, 16, {3, 3}, {1, 1}, {1, 1}, {2, 0, 0, 2}},
      {2, 16, 4, 4, 16, {3, 3}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
      {9, 16, 12, 12, 16},    // threads take tiles
      {1, 32, 2, 2, 160},     // or channels
      {1, 1024, 4, 4, 80},    // tiles stay, channels pass by
      {1, 96, 40, 40, 800}};  // or tiles pass by, and channels in several slices
  for (const char* const* name = simd::loop_names(); *name != nullptr; ++name) {
    ASSERT_TRUE(simd::select_loops(*name));
    Random random(11);
    for (const ConvSpec& spec : specs) {
      if (spec.in > 48 && best != *name) continue;  // the slices are the same
      const OpCase forward = conv_case(spec, random);
      EXPECT_NE(kernel_of("simd/blocked-winograd", blocked(forward)), nullptr) << describe(forward);
      expect_same("simd/blocked-winograd", forward);
      expect_rectified("simd/blocked-winograd", forward);
      for (const GradientOf& gradient :
           product_gradients(forward, random_tensor(forward.outputs[0].shape, random)))
        expect_same("simd/blocked-winograd", gradient.test);
    }
    for (const ConvSpec& spec :
         {ConvSpec{2, 16, 9, 7, 32, {3, 3}, {2, 2}}, ConvSpec{2, 16, 8, 8, 16, {1, 1}}})
      EXPECT_EQ(kernel_of("simd/blocked-winograd", blocked(conv_case(spec, random))), nullptr);
  }
  simd::select_loops(best.c_str());
}

TEST(Blocked, GradientOfThePointwiseConvolutionsWeight) {
  const std::string best = simd::loops().name;
  const std::vector<std::int64_t> one{1, 1};
  const std::vector<ConvSpec> specs{
      {2, 32, 8, 8, 64, one, {1, 1}, {1, 1}, {0, 0, 0, 0}},
      {3, 48, 5, 7, 16, one, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1, "NOTSET", false},
      {2, 32, 8, 8, 64, one, {2, 2}, {1, 1}, {0, 0, 0, 0}},
      {2, 16, 7, 9, 32, one, {3, 2}, {1, 1}, {0, 0, 0, 0}},
      {3, 208, 16, 24, 80, one, {1, 1}, {1, 1}, {0, 0, 0, 0}},  // several slices of channels,
      {2, 48, 24, 25, 32, one, {1, 1}, {1, 1}, {0, 0, 0, 0}},   // of places,
      {11, 16, 8, 8, 32, one, {1, 1}, {1, 1}, {0, 0, 0, 0}},    // and of images;
      {2, 208, 9, 9, 16, one, {2, 2}, {1, 1}, {0, 0, 0, 0}},    // where some places are seen
      {11, 16, 14, 14, 16, one, {2, 2}, {1, 1}, {0, 0, 0, 0}},
      {2, 32, 50, 48, 16, one, {2, 2}, {1, 1}, {0, 0, 0, 0}}};
  for (const char* const* name = simd::loop_names(); *name != nullptr; ++name) {
    ASSERT_TRUE(simd::select_loops(*name));
    Random random(13);
    for (const ConvSpec& spec : specs) {
      const OpCase forward = conv_case(spec, random);
      for (const GradientOf& gradient :
           product_gradients(forward, random_tensor(forward.outputs[0].shape, random))) {
        const bool is_served = gradient.test.op.type == "ConvGradWeight";
        EXPECT_EQ(kernel_of("simd/blocked-pointwise", blocked(gradient.test)) != nullptr, is_served)
            << describe(gradient.test);
        if (is_served) expect_same("simd/blocked-pointwise", gradient.test);
      }
    }
    // Windows that lie in the padding behind.
    for (const std::vector<std::int64_t>& strides : {one, std::vector<std::int64_t>{2, 2}}) {
      const OpCase forward = conv_case({2, 16, 8, 8, 16, one, strides, one, {0, 0, 1, 1}}, random);
      for (const GradientOf& gradient :
           product_gradients(forward, random_tensor(forward.outputs[0].shape, random)))
        EXPECT_EQ(kernel_of("simd/blocked-pointwise", blocked(gradient.test)), nullptr);
    }
  }
  simd::select_loops(best.c_str());
}

TEST(Blocked, MaxPool) {
  Random random(6);
  const std::vector<PoolSpec> specs{{{2, 32, 8, 8}},
                                    {{2, 16, 7, 9}},
                                    {{2, 16, 9, 8}, {3, 3}, {2, 2}, {1, 1, 1, 1}},
                                    {{2, 16, 6, 7}, {3, 2}, {1, 1}, {2, 0, 1, 1}}};
  for (const PoolSpec& spec : specs) {
    const OpCase forward = pool_case(spec, random);
    for (const std::string& choice : choices(false)) {
      const auto results = expect_same(choice, forward);
      std::vector<Tensor> inputs;
      inputs.push_back(random_tensor(forward.outputs[0].shape, random));
      inputs.push_back(results[1].clone());
      expect_same(choice,
                  gradient_case(forward, "MaxPoolGrad", std::move(inputs), {forward.inputs[0].type()}));
    }
  }
}

// An average pool over images of this shape.
OpCase average_case(const PoolSpec& s, bool with_padding, Random& random) {
  std::vector<Tensor> inputs;
  inputs.push_back(random_tensor(s.x, random));
  OpCase test = make_case("AveragePool",
                          {{"kernel_shape", s.kernel},
                           {"strides", s.strides},
                           {"pads", s.pads},
                           {"count_include_pad", std::int64_t{with_padding}}},
                          std::move(inputs), {TensorType{}});
  const Window window = pool_window(test.op, s.x);
  test.outputs[0].shape = {s.x[0], s.x[1], window.output[0], window.output[1]};
  return test;
}

TEST(Blocked, AveragePool) {
  Random random(10);
  std::vector<OpCase> tests;
  for (const bool with_padding : {false, true}) {
    tests.push_back(average_case({{2, 32, 8, 8}, {3, 3}, {1, 1}, {1, 1, 1, 1}}, with_padding, random));
    tests.push_back(average_case({{2, 16, 7, 9}, {2, 3}, {2, 2}, {0, 2, 1, 0}}, with_padding, random));
    tests.push_back(average_case({{1, 16, 5, 6}, {5, 6}}, with_padding, random));
  }
  OpCase global = simple_case("GlobalAveragePool", {3, 32, 5, 7}, random);
  global.outputs[0].shape = {3, 32, 1, 1};
  tests.push_back(std::move(global));
  for (const OpCase& forward : tests) {
    for (const std::string& choice : choices(false)) {
      expect_same(choice, forward);
      std::vector<Tensor> inputs;
      inputs.push_back(random_tensor(forward.outputs[0].shape, random));
      expect_same(choice, gradient_case(forward, forward.op.type + "Grad", std::move(inputs),
                                        {forward.inputs[0].type()}));
    }
  }
}

TEST(Blocked, Concat) {
  Random random(11);
  for (const std::int64_t axis : {1, -3, 2, 0}) {
    const bool of_channels = axis == 1 || axis == -3;
    std::vector<Tensor> inputs;
    std::vector<TensorType> types;
    for (const std::int64_t channels : {32, 16, 48}) {
      inputs.push_back(random_tensor({2, of_channels ? channels : 16, 3, 5}, random));
      types.push_back(inputs.back().type());
    }
    const Shape whole = of_channels ? Shape{2, 96, 3, 5}
                        : axis == 2 ? Shape{2, 16, 9, 5}
                                    : Shape{6, 16, 3, 5};
    const OpCase forward = make_case("Concat", {{"axis", axis}}, std::move(inputs), {{DType::kF32, whole}});
    for (const std::string& choice : choices(false)) {
      expect_same(choice, forward);
      std::vector<Tensor> gradient;
      gradient.push_back(random_tensor(whole, random));
      expect_same(choice, gradient_case(forward, "ConcatGrad", std::move(gradient), types));
    }
  }
}

TEST(Blocked, BatchNormalization) {
  Random random(7);
  for (const Shape& shape :
       {Shape{3, 32, 5, 7}, Shape{64, 16, 4, 4}, Shape{2, 48, 1, 1}, Shape{2, 16, 30, 30}}) {
    for (const bool training : {true, false}) {
      const OpCase forward = batch_norm_case(shape, training, random);
      const OpCase sum = adding(batch_norm_case(shape, training, random), random);
      expect_rectified("simd/blocked", sum);
      for (const std::string& choice : choices(false)) {
        expect_same(choice, sum);
        const auto results = expect_same(choice, forward);
        const Tensor dy = random_tensor(shape, random);
        expect_same(choice, training ? batch_norm_gradient(forward, results, dy)
                                     : fixed_batch_norm_gradient(forward, dy));
      }
    }
  }
}

TEST(Blocked, Elementwise) {
  Random random(8);
  for (const std::string& choice : choices(false)) {
    expect_same(choice, simple_case("Relu", {2, 32, 3, 5}, random));
    for (const int inputs : {2, 3})
      expect_same(choice, simple_case("ReluGrad", {2, 32, 3, 5}, random, inputs));
    expect_same(choice, simple_case("Add", {2, 32, 3, 5}, random, 2));
    for (const char* function : {"Clip", "HardSigmoid", "HardSwish", "LeakyRelu", "Sigmoid"}) {
      expect_same(choice, simple_case(function, {2, 32, 3, 5}, random));
      expect_same(choice, simple_case(std::string(function) + "Grad", {2, 32, 3, 5}, random, 2));
    }
  }
}

// The loops of every instruction set, not this processor's best alone.
TEST(Blocked, EveryInstructionSet) {
  const std::string best = simd::loops().name;
  for (const char* const* name = simd::loop_names(); *name != nullptr; ++name) {
    ASSERT_TRUE(simd::select_loops(*name));
    Random random(9);
    const OpCase norm = batch_norm_case({3, 32, 5, 7}, true, random);
    const auto results = expect_same("simd/blocked", norm);
    expect_same("simd/blocked", batch_norm_gradient(norm, results, random_tensor({3, 32, 5, 7}, random)));
    expect_same("simd/blocked", pool_case({{2, 16, 9, 8}, {3, 3}, {2, 2}, {1, 1, 1, 1}}, random));
    expect_same("simd/blocked", average_case({{2, 16, 9, 8}, {3, 3}, {1, 1}, {1, 1, 1, 1}}, true, random));
  }
  simd::select_loops(best.c_str());
}

}  // namespace
}  // namespace rookery::kernel_tests
