#include "trainer/encoding/compressed_link.hpp"

#include <gmock/gmock.h>
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

#include "models/base/error.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/digits.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/tied_model.hpp"
#include "tests/trainer/encoding/owning_link.hpp"
#include "trainer/encoding/codec.hpp"
#include "trainer/memory_link.hpp"
#include "trainer/transfers.hpp"

namespace rookery {
namespace {

using RankLinks = std::vector<std::unique_ptr<Link>>;

TransportSettings both(const std::string& encoding) {
  return {.activations = encoding, .gradients = encoding};
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

RankLinks compressed_links(int ranks, const EdgeEncoding& encoding,
                           WatchedLink::Types* sent_by_first = nullptr) {
  RankLinks links = make_memory_links(ranks, std::chrono::seconds(60));
  for (std::size_t rank = 0; rank < links.size(); ++rank) {
    auto watched = std::make_unique<WatchedLink>(std::move(links[rank]), rank == 0 ? sent_by_first : nullptr);
    links[rank] = std::make_unique<OwningLink>(std::move(watched), static_cast<int>(rank), encoding);
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
  RankLinks links = compressed_links(3, {both(GetParam()), {}});
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
  RankLinks links = compressed_links(2, {both(GetParam()), {}}, &types);
  const Tensor sent = waves();
  const MessageKey key{.edge = "x"};
  links[0]->send(1, key, sent.view());
  const auto bytes = static_cast<std::int64_t>(make_codec(parse_compression(GetParam()))->bytes(kNumbers));
  EXPECT_LT(bytes, 4 * kNumbers);
  EXPECT_EQ(types.at(key), (TensorType{DType::kU8, Shape{bytes}}));
  EXPECT_EQ(EdgeEncoding(both(GetParam()), {}).activation_type({}, "x", sent.type()), types.at(key));
}

TEST_P(EveryEncoding, WhatWasBegunIsDecodedOnce) {
  RankLinks links = compressed_links(2, {both(GetParam()), {}});
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
TEST_P(EveryEncoding, EachKeyOfAnActivationHasItsOwnNumbers) {
  RankLinks links = compressed_links(2, {both(GetParam()), {}});
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

// The micro-batches of a step together bring what was sent but for what the last one loses.
TEST(CompressedLink, WhatAGradientLosesGoesWithTheNextOfItsStep) {
  RankLinks links = compressed_links(2, {{.gradients = "int4"}, {}});
  Tensor sent = waves();
  const auto numbers = sent.as<float>();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i % 128 != 0) numbers[i] *= 0.01F;  // less than a step of those that are large
  }
  const auto sum_of_step = [&](std::int64_t step, int micro_batches) {
    std::vector<double> sum(numbers.size());
    for (int i = 0; i < micro_batches; ++i) {
      const MessageKey key{
          .kind = MessageKind::kBackwardGradient, .step = step, .micro_batch = i, .edge = "x"};
      links[0]->send(1, key, sent.view());
      const std::vector<float> came = numbers_of(received(*links[1], key, sent.type()));
      for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += static_cast<double>(came[j]);
    }
    return sum;
  };
  constexpr int kMicroBatches = 64;
  const std::vector<double> sum = sum_of_step(0, kMicroBatches);
  for (std::size_t i = 0; i < sum.size(); ++i)
    EXPECT_NEAR(sum[i], kMicroBatches * double{numbers[i]}, 1.1 / 7 / 2 + 1e-4) << i;
  const std::vector<double> first = sum_of_step(1, 1);
  EXPECT_TRUE(std::ranges::equal(first, decoded("int4", std::as_const(sent).as<float>())));
}

// A smaller last micro-batch takes what was lost of as many numbers.
TEST(CompressedLink, MicroBatchesOfAStepMayGetSmaller) {
  RankLinks links = compressed_links(2, {{.gradients = "int8"}, {}});
  const Tensor sent = waves();
  Tensor smaller(DType::kF32, {3, 100});
  std::ranges::fill(smaller.as<float>(), 0.0F);
  const MessageKey first{.kind = MessageKind::kBackwardGradient, .edge = "x"};
  const MessageKey second{.kind = MessageKind::kBackwardGradient, .micro_batch = 1, .edge = "x"};
  links[0]->send(1, first, sent.view());
  links[0]->send(1, second, smaller.view());
  const std::vector<float> came = numbers_of(received(*links[1], first, sent.type()));
  const std::vector<float> rest = numbers_of(received(*links[1], second, smaller.type()));
  const auto numbers = sent.as<float>();
  for (std::size_t i = 0; i < rest.size(); ++i)
    EXPECT_LE(std::abs(numbers[i] - came[i] - rest[i]), std::abs(numbers[i] - came[i]) + 1e-7F) << i;
}

TEST_P(EveryEncoding, WhatIsNoEdgeTravelsAsItIs) {
  WatchedLink::Types types;
  RankLinks links = compressed_links(2, {both(GetParam()), {"image"}}, &types);
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

TEST(EdgeEncoding, WhatWouldNotBecomeSmallerTravelsAsItIs) {
  const auto expect_as_it_is = [](const char* encoding, const TensorType& type) {
    const EdgeEncoding made(both(encoding), {});
    EXPECT_EQ(made.activation_type({}, "x", type), type);
    EXPECT_EQ(made.gradient_type({}, type), type);
    EXPECT_FALSE(made.of_activation({}, "x", type).is_lossy());
  };
  expect_as_it_is("int8", {DType::kF32, Shape{1}});
  expect_as_it_is("none", {DType::kF32, Shape{64}});
  expect_as_it_is("fp16", {DType::kI64, Shape{64}});
}

// A value goes to each of its users as their link says.
TEST(CompressedLink, EachLinkHasItsEncoding) {
  EdgeEncoding encoding(both("auto"), {});
  encoding.set({0, 2}, both("int8"));
  EXPECT_TRUE(encoding.is_lossy());
  EXPECT_FALSE(EdgeEncoding(both("auto"), {}).is_lossy());
  RankLinks links = compressed_links(3, encoding);
  const Tensor sent = waves();
  const MessageKey forward{.edge = "x"};
  const MessageKey backward{.kind = MessageKind::kBackwardGradient, .edge = "x"};
  for (const int to : {1, 2}) links[0]->send(to, forward, sent.view());
  EXPECT_EQ(numbers_of(received(*links[1], forward, sent.type())), numbers_of(sent));
  EXPECT_EQ(numbers_of(received(*links[2], forward, sent.type())), decoded("int8", sent.as<float>()));
  links[2]->send(0, backward, sent.view());
  Tensor came(sent.type());
  links[0]->receive(2, backward, came.view());
  EXPECT_EQ(numbers_of(came), decoded("int8", sent.as<float>()));
}

TEST(CompressedLink, EachKindOfEdgeHasItsEncoding) {
  WatchedLink::Types types;
  RankLinks links = compressed_links(2, {{.activations = "int4", .gradients = "bf16"}, {}}, &types);
  const Tensor sent = waves();
  const MessageKey forward{.edge = "x"};
  const MessageKey backward{.kind = MessageKind::kBackwardGradient, .edge = "x"};
  for (const MessageKey& key : {forward, backward}) links[0]->send(1, key, sent.view());
  EXPECT_EQ(numbers_of(received(*links[1], forward, sent.type())), decoded("int4", sent.as<float>()));
  EXPECT_EQ(numbers_of(received(*links[1], backward, sent.type())), decoded("bf16", sent.as<float>()));
  EXPECT_EQ(types.at(backward).bytes(), 2 * kNumbers);
}

TEST(CompressedLink, APayloadOfAnotherSizeIsAnErrorThatNamesSenderAndTensor) {
  RankLinks beneath = make_memory_links(2, std::chrono::seconds(60));
  CompressedLink link(*beneath[1], 1, {both("int8"), {}});
  const Tensor sent(DType::kU8, {12});
  const MessageKey key{.kind = MessageKind::kBackwardGradient, .step = 3, .edge = "relu_1"};
  beneath[0]->send(1, key, sent.view());
  Tensor into(DType::kF32, {8, 2});
  try {
    link.receive(0, key, into.view());
    ADD_FAILURE() << "12 bytes are 16 numbers";
  } catch (const TransportError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("gradient of relu_1"),
                                             testing::HasSubstr("step 3"), testing::HasSubstr("rank 0"),
                                             testing::HasSubstr("u8[12]"), testing::HasSubstr("u8[20]")));
  }
}

// RankLinks, memory and predictions count what travels.
TEST(Transfers, AreOfTheBytesThatTravel) {
  Graph model = cnn_net();
  add_loss(model, "mse");
  const std::vector<OpId> positions = cut_positions(model);
  const Stage root = cut(model, std::vector<OpId>{0, positions.at(3)}).front();
  const std::vector<Transfer> as_they_are = transfers(root, 64);
  const std::vector<Transfer> encoded =
      transfers(root, 64, {}, 1, {{.activations = "fp16", .gradients = "int8"}, input_names(model)});
  ASSERT_EQ(encoded.size(), as_they_are.size());
  std::vector<std::int64_t> coded;
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    const std::int64_t numbers = as_they_are[i].bytes / 4;
    if (!encoded[i].is_encoded) {
      EXPECT_EQ(encoded[i].bytes, as_they_are[i].bytes);  // labels
      continue;
    }
    coded.push_back(encoded[i].bytes);
    EXPECT_EQ(encoded[i].bytes, encoded[i].is_sent ? 2 * numbers : numbers + 4 * ((numbers + 255) / 256));
  }
  EXPECT_EQ(coded.size(), 2U) << "of an activation and its gradient";
  EXPECT_LT(coded.size(), encoded.size()) << "labels travel, too";
  EXPECT_THAT(coding_buffers(encoded), testing::UnorderedElementsAreArray(coded));
  EXPECT_TRUE(coding_buffers(as_they_are).empty());
}

// What the training of a pipeline makes of it.

TrainingSettings four_epochs() {
  TrainingSettings settings;
  settings.epochs = 4;
  settings.micro_batches = 4;
  return settings;
}

PipelineResult train(const Graph& model, std::size_t stages, const TransportSettings& transport,
                     PipelineOptions options = {}) {
  const TrainingSettings settings = four_epochs();
  Graph whole = model;
  add_loss(whole, settings.loss, target_types(digits(), settings.loss));
  const EdgeEncoding encoding(transport, input_names(whole));
  options.make_links = [&](int ranks) { return compressed_links(ranks, encoding); };
  return run_pipeline(model, even_cuts(model, settings.loss, digits(), stages), settings, digits(), options);
}

// By how much the loss falls from the first epoch to the last.
double fall(const PipelineResult& result) {
  const std::ptrdiff_t epoch = std::ssize(result.losses) / four_epochs().epochs;
  const auto mean = [&](auto begin) {
    return std::accumulate(begin, begin + epoch, 0.0) / static_cast<double>(epoch);
  };
  return mean(result.losses.begin()) - mean(result.losses.end() - epoch);
}

TEST_P(EveryEncoding, TrainsNearlyAsWellAndRepeatably) {
  const TransportSettings compression = both(GetParam());
  const PipelineResult exact = train(cnn_net(), 3, {});
  const PipelineResult first = train(cnn_net(), 3, compression);
  EXPECT_FALSE(same_state(first.state, exact.state)) << "nothing was compressed";
  EXPECT_GT(fall(first), 0.8 * fall(exact));
  PipelineOptions more_threads;
  more_threads.threads = 3;
  for (const PipelineOptions& options : {PipelineOptions(), more_threads}) {
    const PipelineResult again = train(cnn_net(), 3, compression, options);
    EXPECT_EQ(again.losses, first.losses);
    EXPECT_TRUE(same_state(again.state, first.state));
  }
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
