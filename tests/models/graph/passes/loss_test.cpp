#include "models/graph/passes/loss.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "models/base/error.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/stage.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A model whose only output "y_out" is f32[batch, dims…].
Graph model_of(const Shape& sample) {
  GraphBuilder b;
  return b.finish(b.relu("y", b.input("x", sample)));
}

std::string problem(const Shape& sample, const LossTerm& term, const ValueTypes& types = {}) {
  Graph graph = model_of(sample);
  try {
    add_loss(graph, LossSettings(std::vector<LossTerm>{term}), types);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

ValueTypes labels_of(DType dtype, const Shape& shape) {
  return {{kLabels, {dtype, shape}}};
}

TEST(AddLoss, TargetsHaveTheTypeThatTheLossTakes) {
  const auto target = [](const Shape& sample, const LossTerm& term) {
    Graph graph = model_of(sample);
    add_loss(graph, LossSettings(std::vector<LossTerm>{term}));
    return graph.value(graph.at(kLabels)).type.to_string();
  };
  EXPECT_EQ(target({10}, {.name = "mse"}), "i64[batch]");
  EXPECT_EQ(target({4, 10}, {.name = "mse"}), "f32[batch, 4, 10]");
  EXPECT_EQ(target({10}, {.name = "l1"}), "f32[batch, 10]");
  EXPECT_EQ(target({10}, {.name = "bce_with_logits"}), "f32[batch, 10]");
  EXPECT_EQ(target({10}, {.name = "cross_entropy"}), "i64[batch]");
  EXPECT_EQ(target({7, 10}, {.name = "cross_entropy"}), "i64[batch, 7]");
  EXPECT_EQ(target({3, 5, 6}, {.name = "cross_entropy", .class_axis = 1}), "i64[batch, 5, 6]");
}

TEST(AddLoss, AnAxisOfClassesThatMayNotBeMeantIsDoubted) {
  const auto doubted = [](const Shape& sample, const ValueTypes& target, std::int64_t axis) {
    Graph graph = model_of(sample);
    add_loss(graph, LossSettings(std::vector<LossTerm>{{.name = "cross_entropy", .class_axis = axis}}),
             target);
    return doubtful_class_axes(graph);
  };
  const ValueTypes shares = labels_of(DType::kF32, {kBatch, 4, 8, 8});
  EXPECT_THAT(
      doubted({4, 8, 8}, shares, -1),
      testing::ElementsAre(AllOf(HasSubstr("f32[batch, 4, 8, 8]"), HasSubstr("\"class_axis\": 1, or 3 if"))));
  EXPECT_THAT(doubted({4, 8, 8}, shares, 3), testing::IsEmpty());
  EXPECT_THAT(doubted({4, 8, 8}, shares, 1), testing::IsEmpty());
  EXPECT_EQ(doubted({10, 10}, labels_of(DType::kI64, {kBatch, 10}), -1).size(), 1U);
  EXPECT_THAT(doubted({7, 10}, labels_of(DType::kI64, {kBatch, 7}), -1), testing::IsEmpty());
  EXPECT_THAT(doubted({10}, labels_of(DType::kF32, {kBatch, 10}), -1), testing::IsEmpty());
}

TEST(AddLoss, SaysWhatTheGraphHas) {
  Graph graph = model_of({7, 10});
  LossTerm term{.name = "cross_entropy", .weight = 0.5};
  term.ignore_index = -1;
  add_loss(graph, LossSettings(std::vector<LossTerm>{term}));
  const std::vector<LossOp> losses = losses_of(graph);
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses[0].value, kLoss);
  EXPECT_EQ(losses[0].target, kLabels);
  EXPECT_EQ(losses[0].weight, 0.5);
  EXPECT_EQ(losses[0].hits, "loss.hits");
  EXPECT_EQ(losses[0].classes, 10);
  EXPECT_EQ(losses[0].ignored, -1);
  EXPECT_EQ(losses[0].counted, "loss.counted");
  EXPECT_EQ(graph.value(graph.at("loss.counted")).type, (TensorType{DType::kI64, {1}}));
}

TEST(AddLoss, ATargetMayBeAnInputOfTheModel) {
  Graph graph = model_of({6});
  add_loss(graph, LossSettings(std::vector<LossTerm>{{.name = "mse", .target = "x"}}));
  EXPECT_EQ(graph.inputs().size(), 2U);
  EXPECT_FALSE(losses_of(graph)[0].hits);
}

TEST(AddLoss, TheMeanOfAnOutputHasNoTarget) {
  Graph graph = model_of({6});
  add_loss(graph, "mean");
  EXPECT_EQ(graph.inputs().size(), 2U) << "the model's and the sample ids";
  EXPECT_FALSE(losses_of(graph)[0].hits);
}

TEST(AddLoss, TypesThatDoNotFitAreNamed) {
  EXPECT_THAT(problem({10}, {.name = "mse"}, labels_of(DType::kF32, {kBatch, 9})),
              HasSubstr("op 'loss' (MseLoss of f32[1, 10], f32[1, 9], i64[1]): targets of f32[1, 9]"));
  EXPECT_THAT(problem({4, 10}, {.name = "mse"}, labels_of(DType::kI64, {kBatch, 4})),
              HasSubstr("they must be of its type, or class indices i64[batch] for f32[batch, classes]"));
  EXPECT_THAT(problem({10}, {.name = "l1"}, labels_of(DType::kI64, {kBatch})),
              HasSubstr("they must be f32[1, 10]"));
  EXPECT_THAT(problem({10}, {.name = "cross_entropy"}, labels_of(DType::kI32, {kBatch})),
              HasSubstr("they must be class indices i64[1] or probabilities f32[1, 10]"));
  EXPECT_THAT(problem({3, 5, 6}, {.name = "cross_entropy"}, labels_of(DType::kI64, {kBatch, 5, 6})),
              HasSubstr("unless the classes lie along \"class_axis\": 1"));
  EXPECT_THAT(problem({}, {.name = "cross_entropy"}), HasSubstr("an axis of classes"));
}

TEST(AddLoss, HostileOptionsAreRefused) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  for (const double smoothing : {-0.1, 1.1, kNaN}) {
    EXPECT_THAT(problem({10}, {.name = "cross_entropy", .label_smoothing = smoothing}),
                HasSubstr("is not in [0, 1]"));
  }
  for (const std::int64_t axis :
       {std::int64_t{0}, std::int64_t{3}, std::int64_t{-3}, std::numeric_limits<std::int64_t>::min(),
        std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_THAT(problem({7, 10}, {.name = "cross_entropy", .class_axis = axis}),
                HasSubstr("is not an axis of f32[1, 7, 10] behind the batch"));
  }
  EXPECT_THAT(problem({10}, {.name = "bce_with_logits", .pos_weight = {1, 2}}),
              HasSubstr("pos_weight has 2 numbers for the 10"));
  EXPECT_THAT(problem({10}, {.name = "bce_with_logits", .pos_weight = {-1}}),
              HasSubstr("pos_weight: -1 is not a finite number from 0"));
  LossTerm ignoring{.name = "cross_entropy"};
  ignoring.ignore_index = 3;
  EXPECT_THAT(problem({10}, ignoring, labels_of(DType::kF32, {kBatch, 10})),
              HasSubstr("ignore_index is for class indices"));
  EXPECT_THAT(problem({10}, {.name = "huber"}),
              HasSubstr("'huber' is unknown; there are: mse, cross_entropy, bce_with_logits, l1"));
  EXPECT_THAT(problem({10}, {.name = "mse", .output = "z"}), HasSubstr("no output 'z'; there are: y_out"));
  EXPECT_THAT(problem({10}, {.name = "mse", .target = "y_out"}),
              HasSubstr("'y_out' is no input of the model"));
  Graph graph = model_of({10});
  EXPECT_THROW(add_loss(graph, LossSettings(std::vector<LossTerm>{})), ConfigError);
}

TEST(AddLoss, AnOutputThatIsMadeEarlyMayCross) {
  GraphBuilder b;
  const ValueId early = b.linear("early", b.input("x", {4}), 4);
  const ValueId late = b.linear("late", b.relu("relu", early), 4);
  Graph graph = b.finish({early, late});
  add_loss(graph, LossSettings(std::vector<LossTerm>{{.name = "l1", .output = "early_out", .target = "a"},
                                                     {.name = "l1", .output = "late_out", .target = "b"}}));
  EXPECT_THAT(cut_positions(graph), ElementsAre(1, 2));
  const std::vector<Stage> stages = cut(graph, std::vector<OpId>{0, 1, 2});
  // Its gradient goes from the loss to the stage of the relu, and on from there.
  EXPECT_EQ(stages[0].outputs[0], (StageOutput{.value = "early_out", .to = {1, 2}, .gradient_from = 1}));
  EXPECT_EQ(stages[2].inputs[1],
            (StageInput{.value = "early_out", .from = 0, .gradient_to = 1, .gradient_from = kNoStage}));
}

}  // namespace
}  // namespace rookery
