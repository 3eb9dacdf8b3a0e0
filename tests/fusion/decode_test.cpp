#include "fusion/inference/decode.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "models/base/error.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/state/initialize.hpp"
#include "trainer/data/generated.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kIgnored = -100;
constexpr std::int64_t kLength = 5;
constexpr std::int64_t kKinds = 7;

// Tokens that are each one more than the one before, of which the first two are given. Every third sample
// asks for another last one.
class Counting : public GeneratedDataset {
 public:
  Counting()
      : GeneratedDataset(
            10, {{"input", {DType::kI64, {kBatch, kLength}}}, {"labels", {DType::kI64, {kBatch, kLength}}}}) {
  }
  bool is_continued() const override { return true; }

 private:
  void draw(std::int64_t id, const std::string& name, TensorView into) const override {
    const auto to = into.as<std::int64_t>();
    const bool follows = name == "labels";
    for (std::int64_t i = 0; i < kLength; ++i) to[i] = (id + i + (follows ? 1 : 0)) % kKinds;
    if (follows) to[0] = kIgnored;
    if (follows && id % 3 == 0) to[kLength - 1] = (id + kLength + 1) % kKinds;
  }
};

// A table: what follows each token is the next.
Graph next_token_model() {
  GraphBuilder b;
  return b.finish(b.embedding("table", b.input("input", {kLength}, DType::kI64), kKinds, kKinds));
}

StateDict table(std::int64_t step) {
  StateDict state;
  state.emplace("table.weight", Tensor(DType::kF32, {kKinds, kKinds}));
  const auto weights = state.at("table.weight").as<float>();
  for (std::int64_t i = 0; i < kKinds; ++i) weights[i * kKinds + (i + step) % kKinds] = 1;
  return state;
}

Decoded decode(const Graph& model, const StateDict& state, std::int64_t batch) {
  std::vector<std::int64_t> ids(10);
  std::iota(ids.begin(), ids.end(), 0);
  return decode_greedily(model, state, Counting(), "labels", kIgnored, ids, batch);
}

TEST(Decode, CountsSequencesThatAreRightAsAWhole) {
  for (const std::int64_t batch : {1, 4, 10, 256}) {
    const Decoded decoded = decode(next_token_model(), table(1), batch);
    EXPECT_EQ(decoded.sequences, 10);
    EXPECT_EQ(decoded.right, 6) << batch;
    EXPECT_EQ(decoded.percent(), 60);
  }
  EXPECT_EQ(decode(next_token_model(), table(2), 4).right, 0);
}

// The model sees its own tokens, not those of the data set: with the second token wrong all are, though each
// would be right after the right one.
TEST(Decode, GoesOnFromItsOwnTokens) {
  StateDict state = table(1);
  const auto weights = state.at("table.weight").as<float>();
  for (std::int64_t to = 0; to < kKinds; ++to) weights[1 * kKinds + to] = to == 5 ? 1 : 0;
  std::vector<std::int64_t> one{1};  // 1 2 3 4 5, which asks for 3 4 5 6 after 1 2
  EXPECT_EQ(decode_greedily(next_token_model(), state, Counting(), "labels", kIgnored, one, 1).right, 1);
  one = {7};  // 0 1 2 3 4 asks for what follows 1
  EXPECT_EQ(decode_greedily(next_token_model(), state, Counting(), "labels", kIgnored, one, 1).right, 0);
}

TEST(Decode, RefusesModelsOfSomethingElse) {
  GraphBuilder b;
  const Graph model = b.finish(b.linear("dense", b.input("input", {4}), 3));
  EXPECT_THROW(decode(model, initial_state(model, 1), 2), ConfigError);
}

}  // namespace
}  // namespace rookery
