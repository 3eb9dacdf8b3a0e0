#include "trainer/transport/compressed_link.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/zoo/zoo.hpp"
#include "tests/support/digits.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/tied_model.hpp"
#include "trainer/memory_link.hpp"

namespace rookery {
namespace {

using Links = std::vector<std::unique_ptr<Link>>;

EdgeCompression both(const std::string& compression) {
  return {.activations = parse_compression(compression), .gradients = parse_compression(compression)};
}

// A link with the one beneath it, which keeps the types of what is sent.
class WatchedLink final : public Link {
 public:
  using Types = std::map<MessageKey, TensorType>;

  WatchedLink(std::unique_ptr<Link> beneath, Types* types) : beneath_(std::move(beneath)), types_(types) {}
  std::unique_ptr<PendingTransfer> begin_send(int to, const MessageKey& key,
                                              ConstTensorView tensor) override {
    if (types_ != nullptr) types_->insert_or_assign(key, tensor.type);
    return beneath_->begin_send(to, key, tensor);
  }
  std::unique_ptr<PendingTransfer> begin_receive(int from, const MessageKey& key, TensorView into) override {
    return beneath_->begin_receive(from, key, into);
  }
  void flush() override { beneath_->flush(); }

 private:
  std::unique_ptr<Link> beneath_;
  Types* types_;
};

class OwningLink final : public Link {
 public:
  OwningLink(std::unique_ptr<Link> beneath, const EdgeCompression& compression, std::set<std::string> data)
      : beneath_(std::move(beneath)), link_(*beneath_, compression, std::move(data)) {}
  std::unique_ptr<PendingTransfer> begin_send(int to, const MessageKey& key,
                                              ConstTensorView tensor) override {
    return link_.begin_send(to, key, tensor);
  }
  std::unique_ptr<PendingTransfer> begin_receive(int from, const MessageKey& key, TensorView into) override {
    return link_.begin_receive(from, key, into);
  }
  void flush() override { link_.flush(); }

 private:
  std::unique_ptr<Link> beneath_;
  CompressedLink link_;
};

Links compressed_links(int ranks, const EdgeCompression& compression, const std::set<std::string>& data,
                       WatchedLink::Types* sent_by_first = nullptr) {
  Links links = make_memory_links(ranks, std::chrono::seconds(60));
  for (std::size_t rank = 0; rank < links.size(); ++rank) {
    auto watched = std::make_unique<WatchedLink>(std::move(links[rank]), rank == 0 ? sent_by_first : nullptr);
    links[rank] = std::make_unique<OwningLink>(std::move(watched), compression, data);
  }
  return links;
}

constexpr std::int64_t kNumbers = 1000;

Tensor waves() {
  Tensor tensor(DType::kF32, {10, 100});
  const auto numbers = tensor.as<float>();
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(0.37F * static_cast<float>(i));
  return tensor;
}

std::vector<float> decoded(const std::string& compression, std::span<const float> numbers) {
  const auto codec = make_codec(parse_compression(compression));
  std::vector<float> made(numbers.size());
  std::vector<std::byte> bytes(codec->block_bytes(codec->block()));
  for (std::size_t begin = 0; begin < numbers.size(); begin += codec->block()) {
    const std::size_t count = std::min(codec->block(), numbers.size() - begin);
    codec->encode(numbers.subspan(begin, count), bytes.data());
    codec->decode(bytes.data(), std::span(made).subspan(begin, count));
  }
  return made;
}

Tensor received(Link& link, const MessageKey& key, const TensorType& type) {
  Tensor tensor(type);
  link.receive(0, key, tensor.view());
  return tensor;
}

std::vector<float> numbers_of(const Tensor& tensor) {
  const auto numbers = tensor.as<float>();
  return {numbers.begin(), numbers.end()};
}

class EveryEncoding : public testing::TestWithParam<const char*> {};

TEST_P(EveryEncoding, AllUsersOfAValueDecodeTheSame) {
  Links links = compressed_links(3, both(GetParam()), {});
  const Tensor sent = waves();
  const std::vector<float> expected = decoded(GetParam(), sent.as<float>());
  for (const MessageKind kind : {MessageKind::kForwardActivation, MessageKind::kBackwardGradient}) {
    const MessageKey key{.kind = kind, .step = 3, .micro_batch = 1, .edge = "x"};
    for (const int to : {1, 2}) links[0]->send(to, key, sent.view());
    for (const int to : {1, 2}) EXPECT_EQ(numbers_of(received(*links[to], key, sent.type())), expected);
  }
}

TEST_P(EveryEncoding, TheLinkBeneathHasTheEncodedBytes) {
  WatchedLink::Types types;
  Links links = compressed_links(2, both(GetParam()), {}, &types);
  const Tensor sent = waves();
  const MessageKey key{.edge = "x"};
  links[0]->send(1, key, sent.view());
  const auto bytes = static_cast<std::int64_t>(make_codec(parse_compression(GetParam()))->bytes(kNumbers));
  EXPECT_LT(bytes, 4 * kNumbers);
  EXPECT_EQ(types.at(key), (TensorType{DType::kU8, Shape{bytes}}));
  EXPECT_EQ(encoded_type(parse_compression(GetParam()), sent.type()), types.at(key));
}

TEST_P(EveryEncoding, WhatWasBegunIsDecodedOnce) {
  Links links = compressed_links(2, both(GetParam()), {});
  const Tensor sent = waves();
  Tensor into(sent.type());
  const auto receive = links[1]->begin_receive(0, {.edge = "x"}, into.view());
  EXPECT_FALSE(receive->test());
  links[0]->send(1, {.edge = "x"}, sent.view());
  EXPECT_TRUE(receive->test());
  EXPECT_EQ(numbers_of(into), decoded(GetParam(), sent.as<float>()));
  into.as<float>()[0] = 77;
  receive->wait();
  EXPECT_EQ(into.as<float>()[0], 77);
}

// Other values, micro-batches and steps are other tensors, whatever was encoded before.
TEST_P(EveryEncoding, EachKeyHasItsOwnNumbers) {
  Links links = compressed_links(2, both(GetParam()), {});
  std::vector<MessageKey> keys{{.edge = "x"},
                               {.edge = "y"},
                               {.micro_batch = 1, .edge = "y"},
                               {.step = 1, .micro_batch = 1, .edge = "y"},
                               {.validation = true, .step = 1, .micro_batch = 1, .edge = "y"}};
  Tensor sent = waves();
  std::vector<std::vector<float>> expected;
  for (const MessageKey& key : keys) {
    for (float& number : sent.as<float>()) number += 1;
    expected.push_back(decoded(GetParam(), std::as_const(sent).as<float>()));
    links[0]->send(1, key, sent.view());
  }
  for (std::size_t i = 0; i < keys.size(); ++i)
    EXPECT_EQ(numbers_of(received(*links[1], keys[i], sent.type())), expected[i]);
}

TEST_P(EveryEncoding, WhatIsNoEdgeTravelsAsItIs) {
  WatchedLink::Types types;
  Links links = compressed_links(2, both(GetParam()), {"image"}, &types);
  const Tensor floats = waves();
  Tensor tokens(DType::kI64, {10, 100});
  for (std::size_t i = 0; i < kNumbers; ++i)
    tokens.as<std::int64_t>()[i] = static_cast<std::int64_t>(i) << 30;
  const auto expect_same = [&](const MessageKey& key, const Tensor& sent) {
    links[0]->send(1, key, sent.view());
    EXPECT_TRUE(types.at(key) == sent.type()) << to_string(key);
    const Tensor came = received(*links[1], key, sent.type());
    EXPECT_TRUE(std::ranges::equal(came.view().bytes(), sent.view().bytes())) << to_string(key);
  };
  expect_same({.edge = "tokens"}, tokens);
  expect_same({.edge = "image"}, floats);
  expect_same({.kind = MessageKind::kBackwardParameterGradient, .edge = "w"}, floats);
  expect_same({.kind = MessageKind::kForwardParameter, .edge = "w"}, floats);
}

TEST(CompressedLink, WhatWouldNotBecomeSmallerTravelsAsItIs) {
  const TensorType one{DType::kF32, Shape{1}};
  EXPECT_EQ(encoded_type(parse_compression("int8"), one), one);
  EXPECT_EQ(encoded_type(parse_compression("none"), {DType::kF32, Shape{64}}),
            (TensorType{DType::kF32, Shape{64}}));
  EXPECT_EQ(encoded_type(parse_compression("fp16"), {DType::kI64, Shape{64}}),
            (TensorType{DType::kI64, Shape{64}}));
}

TEST(CompressedLink, EachKindOfEdgeHasItsEncoding) {
  WatchedLink::Types types;
  Links links = compressed_links(
      2, {.activations = parse_compression("int4"), .gradients = parse_compression("bf16")}, {}, &types);
  const Tensor sent = waves();
  const MessageKey forward{.edge = "x"};
  const MessageKey backward{.kind = MessageKind::kBackwardGradient, .edge = "x"};
  for (const MessageKey& key : {forward, backward}) links[0]->send(1, key, sent.view());
  EXPECT_EQ(numbers_of(received(*links[1], forward, sent.type())), decoded("int4", sent.as<float>()));
  EXPECT_EQ(numbers_of(received(*links[1], backward, sent.type())), decoded("bf16", sent.as<float>()));
  EXPECT_EQ(types.at(backward).bytes(), 2 * kNumbers);
}

// What the training of a pipeline makes of it.

TrainingSettings short_run() {
  TrainingSettings settings;
  settings.epochs = 4;
  settings.micro_batches = 4;
  return settings;
}

PipelineResult train(const Graph& model, std::size_t stages, const EdgeCompression& compression,
                     PipelineOptions options = {}) {
  const TrainingSettings settings = short_run();
  Graph whole = model;
  add_loss(whole, settings.loss, target_types(digits(), settings.loss));
  std::set<std::string> data;
  for (const ValueId input : whole.inputs()) data.insert(whole.value(input).name);
  options.make_links = [&](int ranks) { return compressed_links(ranks, compression, data); };
  return run_pipeline(model, even_cuts(model, settings.loss, digits(), stages), settings, digits(), options);
}

// By how much the loss falls from the first epoch to the last.
double fall(const PipelineResult& result) {
  const std::ptrdiff_t epoch = std::ssize(result.losses) / short_run().epochs;
  const auto mean = [&](auto begin) {
    return std::accumulate(begin, begin + epoch, 0.0) / static_cast<double>(epoch);
  };
  return mean(result.losses.begin()) - mean(result.losses.end() - epoch);
}

TEST_P(EveryEncoding, TrainsNearlyAsWellAndRepeatably) {
  const EdgeCompression compression = both(GetParam());
  const PipelineResult exact = train(cnn_net(), 3, {});
  const PipelineResult first = train(cnn_net(), 3, compression);
  EXPECT_FALSE(same_state(first.state, exact.state)) << "nothing was compressed";
  EXPECT_GT(fall(first), 0.8 * fall(exact));
  const PipelineResult second = train(cnn_net(), 3, compression);
  EXPECT_EQ(second.losses, first.losses);
  EXPECT_TRUE(same_state(second.state, first.state));
}

TEST_P(EveryEncoding, ARunThatGoesOnGivesTheBitsOfOneUndisturbed) {
  const Graph model = tied_model({1, 8, 8}, 10);
  std::map<std::int64_t, Snapshot> snapshots;
  const ScratchFolder logs;
  PipelineOptions options;
  options.output = logs.path();
  options.snapshots = &snapshots;
  const PipelineResult whole = train(model, 4, both(GetParam()), options);
  ASSERT_GT(snapshots.size(), 5U);
  const auto& [step, middle] = *std::next(snapshots.begin(), std::ssize(snapshots) / 2);
  options.snapshots = nullptr;
  options.from = &middle;
  const PipelineResult rest = train(model, 4, both(GetParam()), options);
  EXPECT_TRUE(same_state(rest.state, whole.state)) << "from step " << step;
}

INSTANTIATE_TEST_SUITE_P(CompressedLink, EveryEncoding, testing::Values("fp16", "bf16", "int8", "int4"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(CompressedLink, WithoutCompressionTheCutDoesNotChangeTheTraining) {
  EXPECT_TRUE(same_state(train(cnn_net(), 3, {}).state, train(cnn_net(), 1, both("int4")).state));
}

}  // namespace
}  // namespace rookery
