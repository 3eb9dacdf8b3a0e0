// Attention written out in single ops and the one op that is made of it: what is found, and that both train
// alike.
#include "models/graph/passes/recognize/recognize.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "models/base/rng.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/runtime/executable.hpp"
#include "tests/models/runtime/test_processor.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kRows = 5;
constexpr std::int64_t kHeads = 3;
constexpr std::int64_t kDepth = 4;
constexpr std::int64_t kWidth = kHeads * kDepth;

enum class Scale : std::uint8_t { kNone, kMul, kDiv, kQuery, kKey };
enum class Mask : std::uint8_t { kNone, kCausal, kAdded, kWhere, kTrained, kWholeRow };

struct Written {
  std::string name;
  bool split = true;        // of one product, or three
  bool turned_key = false;  // one Transpose, or two
  bool joined = true;       // the heads at the end
  Scale scale = Scale::kMul;
  Mask mask = Mask::kNone;
  float dropout = 0;
  bool zeros_for_nan = false;  // of weights
};
void PrintTo(const Written& what, std::ostream* out) {
  *out << what.name;
}

// A block of attention between two linear layers.
class Writer {
 public:
  explicit Writer(const Written& how) : how_(how) {}

  Graph graph() {
    ValueId x = b_.reshape("part", b_.input("input", {kRows * kWidth}), {-1, kRows, kWidth});
    const std::vector<ValueId> parts = how_.split ? split(x) : three(x);
    ValueId q = heads("q", parts[0]);
    ValueId k = how_.turned_key ? b_.transpose("k_turned", parted("k", parts[1]), {0, 2, 3, 1})
                                : b_.transpose("k_turned", heads("k", parts[1]), {0, 1, 3, 2});
    const ValueId v = heads("v", parts[2]);
    if (how_.scale == Scale::kQuery) q = b_.mul("q_scaled", q, number("half", 0.5F));
    if (how_.scale == Scale::kKey) k = b_.div("k_scaled", k, number("two", 2));
    ValueId scores = b_.matmul("scores", q, k);
    if (how_.scale == Scale::kMul) scores = b_.mul("scaled", number("half", 0.5F), scores);
    if (how_.scale == Scale::kDiv) scores = b_.div("scaled", scores, number("two", 2));
    ValueId weights = b_.softmax("softmax", masked(scores));
    if (how_.zeros_for_nan) {
      const ValueId is_nan = b_.apply("is_nan", "Not", {b_.apply("is_number", "Equal", {weights, weights})});
      weights = b_.apply("no_nan", "Where", {is_nan, number("zero", 0), weights});
    }
    if (how_.dropout > 0) weights = b_.dropout("drop", weights, how_.dropout);
    ValueId y = b_.matmul("attention", weights, v);
    if (how_.joined) {
      y = b_.transpose("y_turned", y, {0, 2, 1, 3});
      y = b_.reshape("y", y, {0, 0, kWidth});
    }
    y = b_.linear("out", b_.flatten("flat", y), 5);
    Graph graph = b_.finish(y);
    add_loss(graph, "cross_entropy");
    return graph;
  }

 private:
  ValueId number(const std::string& name, float value) {
    return b_.constant(name, Shape(), std::vector<float>{value});
  }
  ValueId parted(const std::string& name, ValueId x) {
    return b_.reshape(name + "_parted", x, {-1, kRows, kHeads, kDepth});
  }
  ValueId heads(const std::string& name, ValueId x) {
    return b_.transpose(name + "_heads", parted(name, x), {0, 2, 1, 3});
  }
  std::vector<ValueId> three(ValueId x) {
    return {b_.linear("q", x, kWidth), b_.linear("k", x, kWidth), b_.linear("v", x, kWidth)};
  }
  std::vector<ValueId> split(ValueId x) {
    return b_.split("qkv_split", b_.linear("qkv", x, 3 * kWidth), {kWidth, kWidth, kWidth}, 2);
  }
  ValueId masked(ValueId scores) {
    std::vector<float> later(kRows * kRows, 0.0F);
    std::vector<float> distance, whole_row;
    Tensor seen(DType::kBool, {kRows, kRows});
    for (std::int64_t i = 0; i < kRows * kRows; ++i) {
      const auto place = static_cast<std::size_t>(i);
      if (i % kRows > i / kRows) later[place] = -std::numeric_limits<float>::infinity();
      const std::int64_t ahead = i % kRows - i / kRows;
      distance.push_back(0.25F * static_cast<float>(ahead));
      seen.as<bool>()[place] = i % 3 != 2;
      whole_row.push_back(i / kRows == 2 || i == 1 ? -std::numeric_limits<float>::infinity() : 0);
    }
    switch (how_.mask) {
      case Mask::kNone:
        return scores;
      case Mask::kCausal:
        return b_.add("masked", scores, b_.constant("mask", {1, 1, kRows, kRows}, later));
      case Mask::kAdded:
        return b_.add("masked", b_.constant("mask", {kRows, kRows}, distance), scores);
      case Mask::kWhere:
        return b_.apply("masked", "Where",
                        {b_.constant("mask", std::move(seen)), scores, number("hidden", -1e9F)});
      case Mask::kWholeRow:
        return b_.add("masked", scores, b_.constant("mask", {kRows, kRows}, whole_row));
      case Mask::kTrained:
        return b_.add("masked", scores, b_.parameter("bias", {1, kHeads, kRows, kRows}));
    }
    return scores;
  }

  Written how_;
  GraphBuilder b_;
};

std::vector<Written> written() {
  return {
      {.name = "Packed", .dropout = 0.25F},
      {.name = "Causal", .scale = Scale::kDiv, .mask = Mask::kCausal},
      {.name = "Three", .split = false, .scale = Scale::kNone, .mask = Mask::kAdded},
      {.name = "TurnedKey", .turned_key = true, .scale = Scale::kQuery, .mask = Mask::kWhere},
      {.name = "HeadsApart", .joined = false, .scale = Scale::kKey, .mask = Mask::kAdded},
      {.name = "ARowThatSeesNothing", .mask = Mask::kWholeRow, .dropout = 0.25F, .zeros_for_nan = true},
  };
}

const Op* find_attention(const Graph& graph) {
  const auto found = std::ranges::find(graph.ops(), "Attention", &Op::type);
  return found == graph.ops().end() ? nullptr : &*found;
}

StateDict trained_once(const Graph& graph, const Graph& numbered_by) {
  const StateDict start = initial_state(numbered_by, 3);
  const Stage stage = std::move(cut(graph, std::vector<OpId>{0}).front());
  Executable executable(stage,
                        {.training_sizes = {4},
                         .kernels = choose_kernels(graph, 4),
                         .seed = 3,
                         .optimizer = {},
                         .processor = &test_processor()},
                        start);
  const MicroBatch batch{.size = 4};
  CounterRng rng(rng_key(3, "batch"), 0);
  write_from_host(executable.input(0, batch), [&](TensorView host) {
    for (float& x : host.as<float>()) x = 4 * rng.next_float() - 2;
  });
  write_from_host(executable.input(1, batch), [&](TensorView host) {
    for (auto& label : host.as<std::int64_t>()) label = rng.next_below(5);
  });
  executable.forward(batch);
  executable.backward_inputs(batch);
  executable.backward_weights(batch);
  executable.finish_gradients();
  StateDict gradients;
  for (const ValueId id : graph.parameters()) {
    const std::string& name = graph.value(id).name;
    Tensor copied(graph.value(id).type);
    copy(executable.gradient(name), copied.view());
    gradients.emplace(name, std::move(copied));
  }
  return gradients;
}

class RecognizeAttention : public testing::TestWithParam<Written> {};

TEST_P(RecognizeAttention, TrainsAsTheSingleOps) {
  Written how = GetParam();
  how.dropout = 0;  // whose random numbers are others
  const Graph single = Writer(how).graph();
  const Graph whole = recognize_attention(single);
  ASSERT_NE(find_attention(whole), nullptr);
  const StateDict expected = trained_once(single, single);
  const StateDict actual = trained_once(whole, single);
  ASSERT_EQ(expected.size(), actual.size());
  for (const auto& [name, gradient] : expected) {
    const auto a = gradient.as<float>();
    const auto b = actual.at(name).as<float>();
    double scale = 0.01;
    for (const float value : a) scale = std::max(scale, std::abs(static_cast<double>(value)));
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5 * scale) << name;
  }
}

TEST_P(RecognizeAttention, TakesEverythingIn) {
  const Written& how = GetParam();
  const Graph graph = recognize_attention(Writer(how).graph());
  const Op* attention = find_attention(graph);
  ASSERT_NE(attention, nullptr);
  EXPECT_EQ(attention->name, "attention");
  EXPECT_EQ(attention->number("ratio", 0), how.dropout);
  EXPECT_EQ(attention->number("scale", 0), how.scale == Scale::kNone ? 1.0F : 0.5F);
  EXPECT_EQ(attention->integer("is_causal", 0), how.mask == Mask::kCausal ? 1 : 0);
  EXPECT_EQ(attention->inputs.size(), how.mask == Mask::kNone || how.mask == Mask::kCausal ? 3U : 4U);
  EXPECT_EQ(attention->integer("num_heads", 0), how.joined ? kHeads : 0);
  EXPECT_EQ(attention->inputs[1] == kNoValue, how.split && how.joined);
  for (const Op& op : graph.ops()) {
    EXPECT_NE(op.type, "MatMul");
    EXPECT_NE(op.type, "Softmax");
    if (how.joined) {
      EXPECT_NE(op.type, "Transpose") << op.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, RecognizeAttention, testing::ValuesIn(written()),
                         [](const auto& of) { return of.param.name; });

TEST(RecognizeAttention, LeavesAloneWhatItHasNoGradientOf) {
  const Graph graph = Writer({.mask = Mask::kTrained}).graph();
  const Graph same = recognize_attention(graph);
  EXPECT_EQ(find_attention(same), nullptr);
  EXPECT_EQ(same.ops().size(), graph.ops().size());
}

TEST(RecognizeAttention, LeavesAloneWhatOthersRead) {
  GraphBuilder b;
  const ValueId x = b.input("input", {2, kRows, kDepth});
  const ValueId turned = b.transpose("turned", x, {0, 1, 3, 2});
  const ValueId weights = b.softmax("softmax", b.matmul("scores", x, turned));
  const ValueId y = b.matmul("attention", weights, x);
  EXPECT_EQ(find_attention(recognize_attention(b.finish(b.add("both", y, b.matmul("again", weights, x))))),
            nullptr);
}

}  // namespace
}  // namespace rookery
