// Which ops let the samples of a batch act on each other.
#include "models/graph/passes/mixed_samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/loss.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The names of what mixes samples in a model that makes something of x f32[batch, 4, 6] and has a loss.
std::vector<std::string> mixing(const std::function<ValueId(GraphBuilder&, ValueId)>& make) {
  GraphBuilder build;
  const ValueId x = build.input("x", {4, 6});
  Graph graph = build.finish(build.linear("last", make(build, x), 3));
  add_loss(graph, "mse");
  std::vector<std::string> names;
  for (const OpId id : mixing_ops(graph)) names.push_back(graph.op(id).name);
  return names;
}

ValueId mean(GraphBuilder& build, ValueId x, std::vector<std::int64_t> axes, std::int64_t keepdims = 1) {
  return build.apply("mean", "ReduceMean", {x}, {{"axes", std::move(axes)}, {"keepdims", keepdims}});
}

TEST(MixingOps, AreThoseOfABatchThatLeaveNoBatch) {
  const auto centred = [](std::vector<std::int64_t> axes, std::int64_t keepdims) {
    return mixing([&](GraphBuilder& build, ValueId x) {
      return build.sub("centred", x, mean(build, x, axes, keepdims));
    });
  };
  EXPECT_THAT(centred({0}, 1), ElementsAre("mean"));
  EXPECT_THAT(centred({0}, 0), ElementsAre("mean"));
  EXPECT_THAT(centred({-3, 2}, 1), ElementsAre("mean"));
  EXPECT_THAT(centred({2}, 1), IsEmpty());
  EXPECT_THAT(centred({1, 2}, 1), IsEmpty());
}

TEST(MixingOps, AreProductsOfSamplesWithEachOther) {
  const auto product = [](bool with_each_other) {
    return mixing([&](GraphBuilder& build, ValueId x) {
      const ValueId rows = build.flatten("rows", x);
      const ValueId columns = build.transpose("columns", rows, {1, 0});
      if (with_each_other) return build.matmul("weighted", build.matmul("alike", rows, columns), rows);
      return build.matmul("mapped", rows, build.matmul("covariance", columns, rows));
    });
  };
  EXPECT_THAT(product(true), ElementsAre("alike"));
  EXPECT_THAT(product(false), ElementsAre("covariance"));
}

TEST(MixingOps, AreThoseThatRunAlongTheBatch) {
  const auto along = [](const std::string& type, bool is_batch_last) {
    return mixing([&](GraphBuilder& build, ValueId x) {
      ValueId rows = build.flatten("rows", x);
      if (is_batch_last) rows = build.transpose("turned", rows, {1, 0});
      rows = build.apply("along", type, {rows}, {{"axis", std::int64_t{-1}}});
      return is_batch_last ? build.transpose("back", rows, {1, 0}) : rows;
    });
  };
  for (const char* type : {"Softmax", "LogSoftmax", "CumSum"}) {
    EXPECT_THAT(along(type, true), ElementsAre("along")) << type;
    EXPECT_THAT(along(type, false), IsEmpty()) << type;
  }
  EXPECT_THAT(mixing([](GraphBuilder& build, ValueId x) {
                return build.apply("along", "CumSum", {x}, {{"axis", std::int64_t{0}}});
              }),
              ElementsAre("along"));
}

// Of x [batch, channels, places], and of [1, channels, batch] where samples are the places.
TEST(MixingOps, AreThoseWhosePlacesAreTheBatch) {
  const auto over = [](bool is_batch_last, const std::function<ValueId(GraphBuilder&, ValueId)>& make) {
    return mixing([&](GraphBuilder& build, ValueId x) {
      if (!is_batch_last) return make(build, x);
      const ValueId turned = build.transpose("turned", build.flatten("rows", x), {1, 0});
      const ValueId y =
          make(build, build.apply("one", "Unsqueeze", {turned}, {{"axes", std::vector<std::int64_t>{0}}}));
      return build.transpose(
          "back", build.apply("all", "Squeeze", {y}, {{"axes", std::vector<std::int64_t>{0}}}), {1, 0});
    });
  };
  const std::vector<std::function<ValueId(GraphBuilder&, ValueId)>> all{
      [](GraphBuilder& build, ValueId x) { return build.conv1d("along", x, 5, {.kernel = 3}); },
      [](GraphBuilder& build, ValueId x) { return build.avg_pool1d("along", x, 3, 1, 1); },
      [](GraphBuilder& build, ValueId x) { return build.max_pool1d("along", x, 3, 1, 1); },
      [](GraphBuilder& build, ValueId x) { return build.group_norm("along", x, 2); },
      [](GraphBuilder& build, ValueId x) { return build.attention("along", x, x, x, {.heads = 1}); },
      [](GraphBuilder& build, ValueId x) {
        const ValueId turned = build.transpose("channels_last", x, {0, 2, 1});
        return build.transpose("channels", build.attention("along", turned, turned, turned, {.heads = 2}),
                               {0, 2, 1});
      },
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_THAT(over(false, all[i]), IsEmpty()) << i;
    EXPECT_THAT(over(true, all[i]), ElementsAre("along")) << i;
  }
}

// Where batch_first was forgotten samples are the steps.
TEST(MixingOps, AreRecurrentLayersWhoseStepsAreTheBatch) {
  for (const bool is_batch_first : {false, true}) {
    const std::vector<std::string> names = mixing([&](GraphBuilder& build, ValueId x) {
      const ValueId steps = is_batch_first ? build.transpose("turned", x, {1, 0, 2}) : x;
      const ValueId y = build.recurrent("lstm", "LSTM", steps, 5)[0];
      return is_batch_first ? build.transpose("back", y, {1, 0, 2}) : y;
    });
    EXPECT_THAT(names, is_batch_first ? testing::Matcher<std::vector<std::string>>(IsEmpty())
                                      : ElementsAre("lstm_l0"));
  }
}

}  // namespace
}  // namespace rookery
