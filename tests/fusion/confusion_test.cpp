#include "fusion/inference/confusion.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/base/error.hpp"
#include "models/graph/ops/builder.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;

// Sample i holds the value i; its label is i / 2, and whether it is above 3.
class OneValue : public Dataset {
 public:
  std::int64_t size() const override { return 6; }
  const ValueTypes& tensors() const override {
    static const ValueTypes types{{"x", {DType::kF32, {kBatch, 1}}},
                                  {kLabels, {DType::kI64, {kBatch}}},
                                  {"answers", {DType::kF32, {kBatch, 1}}}};
    return types;
  }
  std::int64_t bytes() const override { return 0; }
  std::vector<std::string> class_names() const override { return {"low", "middle"}; }
  void gather(const std::string& name, std::span<const std::int64_t> ids, TensorView into) const override {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (name == kLabels) into.as<std::int64_t>()[i] = ids[i] / 2;
      if (name == "answers") into.as<float>()[i] = ids[i] > 3 ? 1.0F : 0.0F;
      if (name == "x") into.as<float>()[i] = static_cast<float>(ids[i]);
    }
  }
};

const std::vector<std::int64_t> kAll{5, 0, 1, 4, 2, 3};

Graph dense(std::int64_t outputs) {
  GraphBuilder build;
  return build.finish(build.linear("dense", build.input("x", {1}), outputs));
}

StateDict dense_state(const std::vector<float>& weight, const std::vector<float>& bias) {
  StateDict state;
  const auto outputs = std::ssize(bias);
  state.emplace("dense.weight", Tensor(DType::kF32, {outputs, 1}));
  state.emplace("dense.bias", Tensor(DType::kF32, {outputs}));
  std::ranges::copy(weight, state.at("dense.weight").as<float>().begin());
  std::ranges::copy(bias, state.at("dense.bias").as<float>().begin());
  return state;
}

TEST(Confusion, CountsWhatEachClassIsTakenFor) {
  // 0 up to 2.5, then x - 2.5, never the third: 2 is taken for "low", 4 and 5 for "middle".
  const StateDict state = dense_state({0, 1, 0}, {0, -2.5F, -9});
  for (const std::int64_t batch : {1, 4, 100}) {
    const auto confusion = confusion_of(dense(3), state, OneValue(), "cross_entropy", kAll, batch);
    ASSERT_TRUE(confusion);
    EXPECT_THAT(confusion->classes, ElementsAre("low", "middle", "2"));
    EXPECT_THAT(confusion->counts, ElementsAre(2, 0, 0, 1, 1, 0, 0, 2, 0));
    EXPECT_EQ(confusion->samples(1), 2);
    EXPECT_EQ(confusion->answers(1), 3);
    EXPECT_EQ(confusion->recall(1), 0.5);
    EXPECT_EQ(confusion->precision(1), 1.0 / 3);
    EXPECT_EQ(confusion->recall(2), 0);
    EXPECT_FALSE(confusion->precision(2)) << "nothing is taken for it";
  }
}

TEST(Confusion, WhatIsIgnoredDoesNotCount) {
  LossSettings loss("cross_entropy");
  loss.terms[0].ignore_index = 0;
  const auto confusion =
      confusion_of(dense(3), dense_state({0, 1, 0}, {0, -2.5F, -9}), OneValue(), loss, kAll, 6);
  EXPECT_THAT(confusion->counts, ElementsAre(0, 0, 0, 1, 1, 0, 0, 2, 0));
}

TEST(Confusion, OfOneLogitIsOfTwoClasses) {
  LossSettings loss("bce_with_logits");
  loss.terms[0].target = "answers";
  const auto confusion = confusion_of(dense(1), dense_state({1}, {-2.5F}), OneValue(), loss, kAll, 4);
  ASSERT_TRUE(confusion);
  EXPECT_THAT(confusion->classes, ElementsAre("low", "middle"));
  EXPECT_THAT(confusion->counts, ElementsAre(3, 1, 0, 2)) << "3 is taken for the second";
}

TEST(Confusion, OfNumbersThereIsNone) {
  LossSettings loss("mse");
  loss.terms[0].target = "answers";
  EXPECT_FALSE(confusion_of(dense(1), dense_state({1}, {0}), OneValue(), loss, kAll, 4));
}

TEST(Confusion, ALabelThatIsNoClassIsAnError) {
  EXPECT_THROW(confusion_of(dense(2), dense_state({0, 1}, {0, 0}), OneValue(), "cross_entropy", kAll, 4),
               DataError);
}

}  // namespace
}  // namespace rookery
