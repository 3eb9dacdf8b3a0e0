// What the comparison with PyTorch does not show of the operators that move, take and choose elements:
// indices that are out of range, sums in a fixed order, shares of equals, casts out of range, emptiness.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/base/error.hpp"
#include "tests/models/kernels/op_case.hpp"

namespace rookery::kernel_tests {
namespace {

using Attributes = std::map<std::string, Attribute>;
using Integers = std::vector<std::int64_t>;
using testing::HasSubstr;
using testing::ThrowsMessage;

template <typename T>
Tensor tensor_of(const Shape& shape, const std::vector<T>& elements) {
  Tensor tensor(dtype_of<T>(), shape);
  std::ranges::copy(elements, tensor.as<T>().begin());
  return tensor;
}

template <typename... T>
std::vector<Tensor> tensors_of(T... tensors) {
  std::vector<Tensor> inputs;
  (inputs.push_back(std::move(tensors)), ...);
  return inputs;
}

Tensor run(const std::string& type, const Attributes& attributes, std::vector<Tensor> inputs,
           const TensorType& output) {
  auto results = run_on("eigen", make_case(type, attributes, std::move(inputs), {output}));
  if (!results) throw std::runtime_error("no kernel for " + type);
  return std::move((*results)[0]);
}

template <typename T>
std::vector<T> elements_of(const Tensor& tensor) {
  return {tensor.as<T>().begin(), tensor.as<T>().end()};
}

TEST(TensorOps, IndicesOutOfRangeAreRefused) {
  for (const std::int64_t index :
       {std::int64_t{4}, std::int64_t{-5}, std::int64_t{1} << 60, std::numeric_limits<std::int64_t>::min()}) {
    const auto indices = [&] { return tensor_of<std::int64_t>({3}, {0, index, -4}); };
    const auto expect_refused = [&](const std::string& type, std::vector<Tensor> inputs,
                                    const TensorType& output) {
      EXPECT_THAT([&] { run(type, {}, std::move(inputs), output); },
                  ThrowsMessage<DataError>(HasSubstr("op 'the_" + type + "': index " + std::to_string(index) +
                                                     " at place 1 is not in [-4, 4)")));
    };
    expect_refused("Gather", tensors_of(Tensor(DType::kF32, {4, 2}), indices()), {DType::kF32, {3, 2}});
    expect_refused("GatherGrad", tensors_of(Tensor(DType::kF32, {3, 2}), indices()), {DType::kF32, {4, 2}});
    expect_refused("GatherElements", tensors_of(Tensor(DType::kF32, {4}), indices()), {DType::kF32, {3}});
    expect_refused("GatherElementsGrad", tensors_of(Tensor(DType::kF32, {3}), indices()), {DType::kF32, {4}});
    const auto points = [&] { return tensor_of<std::int64_t>({3, 1}, {0, index, -4}); };
    const auto rows = [](std::int64_t count) { return Tensor(DType::kF32, {count, 2}); };
    expect_refused("GatherND", tensors_of(rows(4), points()), {DType::kF32, {3, 2}});
    expect_refused("GatherNDGrad", tensors_of(rows(3), points()), {DType::kF32, {4, 2}});
    expect_refused("ScatterND", tensors_of(rows(4), points(), rows(3)), {DType::kF32, {4, 2}});
    expect_refused("ScatterNDGradData", tensors_of(rows(4), points()), {DType::kF32, {4, 2}});
    expect_refused("ScatterNDGradUpdates", tensors_of(rows(4), points()), {DType::kF32, {3, 2}});
  }
  // Of an axis without elements every index is out of range.
  EXPECT_THROW(run("Gather", {}, tensors_of(Tensor(DType::kF32, {0, 2}), tensor_of<std::int64_t>({1}, {0})),
                   {DType::kF32, {1, 2}}),
               DataError);
}

TEST(TensorOps, WholeNumbersWrapAndDoNotTrap) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  const auto apply = [](const std::string& type, std::int64_t a, std::int64_t b) {
    return run(type, {}, tensors_of(tensor_of<std::int64_t>({1}, {a}), tensor_of<std::int64_t>({1}, {b})),
               {DType::kI64, {1}})
        .as<std::int64_t>()[0];
  };
  EXPECT_EQ(apply("Add", kMost, 1), kLeast);
  EXPECT_EQ(apply("Sub", kLeast, 1), kMost);
  EXPECT_EQ(apply("Mul", kMost, 2), -2);
  EXPECT_EQ(apply("Div", kLeast, -1), kLeast);
  EXPECT_EQ(apply("Div", -7, 2), -3);
  EXPECT_THAT([&] { apply("Div", 1, 0); },
              ThrowsMessage<DataError>(HasSubstr("op 'the_Div': element 0 of the divisor is 0")));
}

TEST(TensorOps, CastsStayInRange) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> numbers{-1.75F, 2.5F, 1e30F, -infinity, std::numeric_limits<float>::quiet_NaN()};
  const auto cast = [&](DType to) {
    return run("Cast", {{"to", std::string(name_of(to))}}, tensors_of(tensor_of<float>({5}, numbers)),
               {to, {5}});
  };
  using testing::ElementsAre;
  EXPECT_THAT(elements_of<std::int32_t>(cast(DType::kI32)),
              ElementsAre(-1, 2, std::numeric_limits<std::int32_t>::max(),
                          std::numeric_limits<std::int32_t>::min(), 0));
  EXPECT_THAT(elements_of<std::int64_t>(cast(DType::kI64)),
              ElementsAre(-1, 2, std::numeric_limits<std::int64_t>::max(),
                          std::numeric_limits<std::int64_t>::min(), 0));
  EXPECT_THAT(elements_of<std::uint8_t>(cast(DType::kU8)), ElementsAre(0, 2, 255, 0, 0));
  EXPECT_THAT(elements_of<bool>(cast(DType::kBool)), ElementsAre(true, true, true, true, true));
}

// Each of three equal operands has a third; of two, as in PyTorch, a half.
TEST(TensorOps, EqualOperandsShareTheGradient) {
  const auto x = [](float a) { return tensor_of<float>({2}, {a, 1}); };
  for (const auto& [input, expected] :
       std::vector<std::pair<std::int64_t, float>>{{0, 2}, {1, 0}, {2, 2}, {3, 2}}) {
    const Tensor gradient =
        run("ExtremumGrad", {{"input", input}},
            tensors_of(tensor_of<float>({2}, {6, 8}), x(5), x(5), x(4), x(5), x(5)), {DType::kF32, {2}});
    EXPECT_THAT(elements_of<float>(gradient), testing::ElementsAre(expected, 2)) << input;
  }
}

// Every element that was repeated adds its share in the order of dY: these sums round differently in others.
TEST(TensorOps, SumsHaveTheOrderOfTheGradient) {
  const std::vector<float> dy{1, 1e8F, -1e8F, 1};
  const Tensor of_rows =
      run("GatherGrad", {}, tensors_of(tensor_of<float>({4}, dy), tensor_of<std::int64_t>({4}, {0, 0, 0, 0})),
          {DType::kF32, {1}});
  float sum = 0;
  for (const float share : dy) sum += share;
  EXPECT_EQ(of_rows.as<float>()[0], sum);
  const auto same_point = [] { return tensor_of<std::int64_t>({4, 1}, {0, 0, 0, 0}); };
  const Tensor of_points =
      run("GatherNDGrad", {}, tensors_of(tensor_of<float>({4}, dy), same_point()), {DType::kF32, {1}});
  EXPECT_EQ(of_points.as<float>()[0], sum);
  const Tensor added = run("ScatterND", {{"reduction", std::string("add")}},
                           tensors_of(tensor_of<float>({1}, {0}), same_point(), tensor_of<float>({4}, dy)),
                           {DType::kF32, {1}});
  EXPECT_EQ(added.as<float>()[0], sum);
}

// Of several updates of one place the last stays; all have its gradient, as with PyTorch's index_put_.
TEST(TensorOps, TheLastUpdateIsWritten) {
  const auto points = [] { return tensor_of<std::int64_t>({3, 1}, {1, 0, 1}); };
  const Tensor written =
      run("ScatterND", {},
          tensors_of(tensor_of<float>({3}, {5, 6, 7}), points(), tensor_of<float>({3}, {1, 2, 3})),
          {DType::kF32, {3}});
  EXPECT_THAT(elements_of<float>(written), testing::ElementsAre(2, 3, 7));
  const Tensor gradient = run("ScatterNDGradUpdates", {},
                              tensors_of(tensor_of<float>({3}, {5, 6, 7}), points()), {DType::kF32, {3}});
  EXPECT_THAT(elements_of<float>(gradient), testing::ElementsAre(6, 5, 6));
}

// A norm of 0 has no slope; PyTorch says 0.
TEST(TensorOps, NormsOfZeroHaveNoGradient) {
  const Tensor of_l2 =
      run("ReduceL2Grad", {{"axes", Integers{1}}},
          tensors_of(tensor_of<float>({2, 1}, {1, 1}), tensor_of<float>({2, 2}, {0, 0, 3, 4}),
                     tensor_of<float>({2, 1}, {0, 5})),
          {DType::kF32, {2, 2}});
  EXPECT_THAT(elements_of<float>(of_l2), testing::ElementsAre(0, 0, 0.6F, 0.8F));
  const Tensor of_l1 =
      run("ReduceL1Grad", {}, tensors_of(tensor_of<float>({1}, {2}), tensor_of<float>({3}, {0, -3, 4})),
          {DType::kF32, {3}});
  EXPECT_THAT(elements_of<float>(of_l1), testing::ElementsAre(0, -2, 2));
}

TEST(TensorOps, TensorsWithoutElementsAreMovedToo) {
  const TensorType none{DType::kF32, {2, 0, 3}};
  EXPECT_NO_THROW(
      run("Transpose", {{"perm", Integers{2, 0, 1}}}, tensors_of(Tensor(none)), {DType::kF32, {3, 2, 0}}));
  EXPECT_NO_THROW(
      run("Tile", {{"repeats", Integers{2, 2, 1}}}, tensors_of(Tensor(none)), {DType::kF32, {4, 0, 3}}));
  EXPECT_NO_THROW(run("Concat", {{"axis", std::int64_t{1}}}, tensors_of(Tensor(none), Tensor(none)), none));
  const Tensor padded = run("Pad", {{"pads", Integers{0, 1, 0, 0, 0, 0}}, {"constant_value", 7.0F}},
                            tensors_of(Tensor(none)), {DType::kF32, {2, 1, 3}});
  EXPECT_THAT(elements_of<float>(padded), testing::Each(7.0F));
  const Attributes empty{{"starts", Integers{3}}, {"ends", Integers{3}}, {"axes", Integers{1}}};
  EXPECT_NO_THROW(run("Slice", empty, tensors_of(Tensor(DType::kF32, {2, 3, 3})), none));
  const Tensor gradient = run("SliceGrad", empty, tensors_of(Tensor(none)), {DType::kF32, {2, 3, 3}});
  EXPECT_THAT(elements_of<float>(gradient), testing::Each(0.0F));
}

// A plane larger than the squares in which it is turned, of every size of element.
TEST(TensorOps, LargePlanesAreTurned) {
  const Shape from{3, 37, 2, 53};
  const Shape to{3, 53, 2, 37};
  const Attributes perm{{"perm", Integers{0, 3, 2, 1}}};
  const auto check = [&](Tensor x, auto number) {
    using T = decltype(number);
    for (std::size_t i = 0; i < x.as<T>().size(); ++i) {
      const std::size_t odd = i * 7 + i / 251;
      x.as<T>()[i] = static_cast<T>(odd);
    }
    const Tensor y = run("Transpose", perm, tensors_of(x.clone()), {x.type().dtype, to});
    const Tensor back = run("TransposeGrad", perm, tensors_of(y.clone()), x.type());
    EXPECT_TRUE(same_bits(back, x));
    EXPECT_EQ(y.as<T>()[((1 * 53 + 50) * 2 + 1) * 37 + 35], x.as<T>()[((1 * 37 + 35) * 2 + 1) * 53 + 50]);
  };
  check(Tensor(DType::kF32, from), float());
  check(Tensor(DType::kI64, from), std::int64_t());
  check(Tensor(DType::kU8, from), std::uint8_t());
}

}  // namespace
}  // namespace rookery::kernel_tests
