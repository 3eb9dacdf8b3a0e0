#include "models/tensor/tensor.hpp"

#include <gtest/gtest.h>

#include "models/base/error.hpp"

namespace rookery {
namespace {

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ((Shape{2, 3, 4}).elements(), 24);
  EXPECT_EQ((Shape{2, 0, 4}).elements(), 0);
  EXPECT_EQ((Shape{2, 3, 4})[-1], 4);
  EXPECT_EQ((Shape{kBatch, 3}).with_batch(7), (Shape{7, 3}));
  EXPECT_EQ((Shape{kBatch, 3}).to_string(), "[batch, 3]");
}

TEST(Shape, HugeAndNegativeDimensionsAreErrors) {
  const std::int64_t huge = std::int64_t{1} << 60;
  EXPECT_THROW((Shape{huge, huge}).elements(), DataError);
  EXPECT_THROW((Shape{huge}).elements(), DataError);
  EXPECT_THROW((Shape{-1, 3}).elements(), DataError);
  EXPECT_THROW(Shape(std::vector<std::int64_t>(9, 1)), DataError);
}

TEST(Shape, AxesOutOfRangeAreBugs) {
  const Shape shape{2, 3};
  EXPECT_THROW(shape[2], BugError);
  EXPECT_THROW(shape[-3], BugError);
}

TEST(Tensor, MemoryIsAlignedAndZeroed) {
  Tensor tensor(DType::kF32, {3, 5});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.view().data) % kAlignment, 0U);
  for (const float element : tensor.as<float>()) EXPECT_EQ(element, 0.0F);
  EXPECT_EQ(tensor.view().bytes().size(), 60U);
}

TEST(Tensor, ReadingAsAnotherTypeIsABug) {
  Tensor tensor(DType::kI64, {2});
  EXPECT_THROW(tensor.as<float>(), BugError);
}

TEST(Tensor, CopiesNeedEqualTypes) {
  Tensor from(DType::kF32, {2, 2});
  from.as<float>()[3] = 4;
  Tensor to(DType::kF32, {2, 2});
  copy(from.view(), to.view());
  EXPECT_EQ(to.as<float>()[3], 4.0F);
  Tensor other(DType::kF32, {4});
  EXPECT_THROW(copy(from.view(), other.view()), BugError);
  EXPECT_EQ(from.clone().as<float>()[3], 4.0F);
}

}  // namespace
}  // namespace rookery
