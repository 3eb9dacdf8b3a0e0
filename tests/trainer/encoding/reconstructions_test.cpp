// Activations that travel by their difference from the last ones of their samples.
#include "trainer/encoding/reconstructions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "models/graph/ops/builder.hpp"
#include "trainer/encoding/compressed_link.hpp"
#include "trainer/memory_link.hpp"
#include "trainer/transfers.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kNumbersOfSample = 300;
constexpr std::int64_t kPlaces = 12;

// Three stages, of which the first sends "x" to both others.
std::vector<Stage> stages_of_x() {
  GraphBuilder b;
  const ValueId x = b.relu("x", b.linear("first", b.input("input", {kNumbersOfSample}), kNumbersOfSample));
  const ValueId y = b.relu("y", b.linear("second", x, kNumbersOfSample));
  return cut(b.finish(b.linear("third", b.add("sum", x, y), 10)), std::vector<OpId>{0, 2, 4});
}

std::string value_x() {
  return stages_of_x().front().outputs.front().value;
}

TrainingSettings three_a_batch() {
  TrainingSettings settings;
  settings.batch_size = 6;
  settings.micro_batches = 2;
  return settings;
}

EdgeEncoding delta(const std::string& activations) {
  return {{.activations = activations}, {}, kPlaces};
}

// The ends of the links of those stages.
struct Ends {
  explicit Ends(const std::string& activations, const TrainingSettings& settings = three_a_batch(),
                int again = 0, const ClusterShares& shares = one_cluster(6))
      : stages(stages_of_x()), beneath(make_memory_links(3, std::chrono::seconds(60))) {
    for (std::size_t i = 0; i < stages.size(); ++i) {
      kept.push_back(std::make_unique<Reconstructions>(stages[i], delta(activations),
                                                       SamplePlaces(settings, kPlaces, shares), again));
      links.push_back(std::make_unique<CompressedLink>(*beneath[i], static_cast<int>(i), delta(activations),
                                                       kept.back().get()));
    }
  }

  std::vector<float> samples(std::size_t stage) const {
    const TensorView view = kept[stage]->state().at(reconstruction_key(value_x()));
    const auto numbers = std::as_const(view).as<float>();
    return {numbers.begin(), numbers.end()};
  }

  const std::vector<Stage> stages;
  std::vector<std::unique_ptr<Link>> beneath;
  std::vector<std::unique_ptr<Reconstructions>> kept;
  std::vector<std::unique_ptr<CompressedLink>> links;
};

MessageKey key_of_x(std::int64_t step, int micro_batch, MessageKind kind = MessageKind::kForwardActivation) {
  return {.kind = kind, .step = step, .micro_batch = micro_batch, .edge = value_x()};
}

// Numbers that change with `shift`.
Tensor rows(std::int64_t count, float shift) {
  Tensor tensor(DType::kF32, {count, kNumbersOfSample});
  const auto numbers = tensor.as<float>();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = std::sin(0.37F * static_cast<float>(i) + shift);
  return tensor;
}

std::vector<float> all_of(const Tensor& tensor) {
  const auto numbers = tensor.as<float>();
  return {numbers.begin(), numbers.end()};
}

std::vector<float> passed(Ends& ends, const MessageKey& key, const Tensor& sent, int to = 1) {
  ends.links[0]->send(to, key, sent.view());
  Tensor came(sent.type());
  ends.links[to]->receive(0, key, came.view());
  return all_of(came);
}

double largest_error(const std::vector<float>& came, const Tensor& sent) {
  double largest = 0;
  const auto numbers = sent.as<float>();
  for (std::size_t i = 0; i < came.size(); ++i) {
    const double error = std::abs(double{came[i]} - double{numbers[i]});
    if (std::isnan(error)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, error);
  }
  return largest;
}

class EveryDelta : public testing::TestWithParam<const char*> {};

// A sample may be under way twice where an epoch is a micro-batch.
TEST_P(EveryDelta, BothEndsHaveTheSameInWhateverOrderReceivesEnd) {
  TrainingSettings settings = three_a_batch();
  settings.batch_size = kPlaces;
  settings.micro_batches = 1;
  Ends ends(GetParam(), settings, 0, one_cluster(kPlaces));
  constexpr std::size_t kEpochs = 4;
  std::vector<Tensor> came;
  std::vector<std::unique_ptr<PendingTransfer>> receives;
  std::vector<std::vector<float>> kept;
  for (std::size_t epoch = 0; epoch < kEpochs; ++epoch)
    came.emplace_back(DType::kF32, Shape{kPlaces, kNumbersOfSample});
  for (std::size_t epoch = 0; epoch < kEpochs; ++epoch)
    receives.push_back(
        ends.links[1]->begin_receive(0, key_of_x(static_cast<std::int64_t>(epoch), 0), came[epoch].view()));
  EXPECT_FALSE(receives.back()->test());
  for (std::size_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Tensor sent = rows(kPlaces, 0.1F * static_cast<float>(epoch));
    ends.links[0]->send(1, key_of_x(static_cast<std::int64_t>(epoch), 0), sent.view());
    kept.push_back(ends.samples(0));
  }
  EXPECT_TRUE(receives[2]->test());
  receives[3]->wait();
  EXPECT_TRUE(receives[0]->test());
  EXPECT_EQ(ends.samples(1), ends.samples(0));
  SamplePlaces places(settings, kPlaces, one_cluster(kPlaces));
  for (std::size_t epoch = 0; epoch < kEpochs; ++epoch) {
    const auto order = places.of(static_cast<std::int64_t>(epoch), 0);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto row = came[epoch].as<float>().subspan(i * kNumbersOfSample, kNumbersOfSample);
      const auto of_sender = kept[epoch].begin() + order[i] * kNumbersOfSample;
      EXPECT_TRUE(std::equal(row.begin(), row.end(), of_sender)) << epoch << ", " << i;
    }
  }
}

TEST_P(EveryDelta, AllUsersDecodeTheSameThoughItIsEncodedOnce) {
  Ends ends(GetParam());
  for (std::int64_t step = 0; step < 6; ++step) {
    const Tensor sent = rows(3, static_cast<float>(step));
    for (const int to : {1, 2}) ends.links[0]->send(to, key_of_x(step, 0), sent.view());
    std::vector<std::vector<float>> came;
    for (const int to : {1, 2}) {
      Tensor tensor(sent.type());
      ends.links[to]->receive(0, key_of_x(step, 0), tensor.view());
      came.push_back(all_of(tensor));
    }
    EXPECT_EQ(came[0], came[1]);
  }
}

TEST_P(EveryDelta, ErrorsShrinkAsActivationsComeToRest) {
  Ends ends(GetParam());
  constexpr std::int64_t kBatches = kPlaces / 6;
  std::map<std::int64_t, double> errors;  // the largest, by epoch
  SamplePlaces places(three_a_batch(), kPlaces, one_cluster(6));
  for (std::int64_t step = 0; step < 8 * kBatches; ++step) {
    const std::int64_t epoch = step / kBatches;
    for (const int micro_batch : {0, 1}) {
      // Each sample moves by half as much each time.
      Tensor sent(DType::kF32, {3, kNumbersOfSample});
      const auto order = places.of(step, micro_batch);
      for (std::size_t i = 0; i < order.size(); ++i) {
        const Tensor of_sample =
            rows(1, static_cast<float>(order[i]) + std::ldexp(1.0F, -static_cast<int>(epoch)));
        std::ranges::copy(of_sample.as<float>(), sent.as<float>().subspan(i * kNumbersOfSample).begin());
      }
      double& largest = errors[epoch];
      largest = std::max(largest, largest_error(passed(ends, key_of_x(step, micro_batch), sent), sent));
    }
  }
  EXPECT_LT(errors[0], 1.0 / 2048) << "fp16";
  for (std::int64_t epoch = 2; epoch < 8; ++epoch) EXPECT_LT(errors[epoch], 0.7 * errors[epoch - 1]) << epoch;
  const double steps = std::string(GetParam()) == kInt8Delta ? 127 : 7;
  EXPECT_LT(errors[1], 1.01 * 0.5 / steps / 2) << "half a step of what they moved by";
}

// Forwards that are run again, in any order among them.
TEST_P(EveryDelta, WhatIsSentAgainTakesThePlaceOfWhatWasSentFirst) {
  Ends once(GetParam());
  Ends twice(GetParam(), three_a_batch(), 2);
  for (std::int64_t step = 0; step < 6; ++step) {
    const auto shift = static_cast<float>(step);
    for (const int micro_batch : {0, 1}) passed(twice, key_of_x(step, micro_batch), rows(3, shift + 40));
    for (const int micro_batch : {1, 0}) {
      const MessageKey again = key_of_x(step, micro_batch, MessageKind::kForwardActivationAgain);
      const std::vector<float> came = passed(twice, again, rows(3, shift));
      EXPECT_EQ(came, passed(once, key_of_x(step, micro_batch), rows(3, shift))) << step;
    }
    for (const std::size_t stage : {0, 1}) {
      const std::vector<float> kept = twice.samples(stage);
      const std::vector<float> expected = once.samples(stage);
      EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(kept)), std::as_bytes(std::span(expected)),
                                     [](std::byte a, std::byte b) { return a == b; }));
    }
  }
}

std::int64_t bytes_of_begin(Ends& ends, const MessageKey& key, std::int64_t count) {
  return static_cast<std::int64_t>(
      ends.kept[0]->begin(key, {DType::kF32, Shape{count, kNumbersOfSample}}).bytes());
}

// Of several clusters each has seen a part of the samples in an epoch.
TEST_P(EveryDelta, ARowTravelsAsFp16UntilItsSampleHasBeenSeen) {
  Ends ends(GetParam(), three_a_batch(), 0, ClusterShares{.cluster = 0, .samples = {6, 6}});
  const TensorType six{DType::kF32, Shape{6, kNumbersOfSample}};
  const auto row = static_cast<std::int64_t>(
      make_codec(parse_compression(encoding_of_delta(GetParam())))->bytes(kNumbersOfSample));
  EXPECT_EQ(delta(GetParam()).activation_type({0, 1}, value_x(), six),
            (TensorType{DType::kU8, Shape{6 * row}}));
  EXPECT_EQ(delta(GetParam()).largest_activation_type({0, 1}, value_x(), six),
            (TensorType{DType::kU8, Shape{6 * 2 * kNumbersOfSample}}));
  SamplePlaces places(three_a_batch(), kPlaces, {.cluster = 0, .samples = {6, 6}});
  std::vector<bool> seen(kPlaces, false);
  std::int64_t mixed = 0;
  for (std::int64_t step = 0; step < 6; ++step) {
    for (const int micro_batch : {0, 1}) {
      std::int64_t known = 0;
      for (const std::int64_t place : places.of(step, micro_batch)) {
        known += seen[place] ? 1 : 0;
        seen[place] = true;
      }
      if (known > 0 && known < 3) ++mixed;
      EXPECT_EQ(bytes_of_begin(ends, key_of_x(step, micro_batch), 3),
                known * row + (3 - known) * 2 * kNumbersOfSample);
      const Tensor sent = rows(3, 1);
      EXPECT_LT(largest_error(passed(ends, key_of_x(step, micro_batch), sent), sent), 0.3);
    }
  }
  EXPECT_GT(mixed, 0);
}

TEST_P(EveryDelta, ValidationTravelsAsFp16AndLeavesNothing) {
  Ends ends(GetParam());
  MessageKey key = key_of_x(0, 0);
  key.validation = true;
  const Tensor sent = rows(5, 0);
  EXPECT_LT(largest_error(passed(ends, key, sent), sent), 1.0 / 2048);
  EXPECT_TRUE(std::isnan(ends.samples(0).front()));
  EXPECT_EQ(delta(GetParam()).first_of_deltas().activation_type({0, 1}, value_x(), sent.type()).bytes(),
            2U * 5 * kNumbersOfSample);
}

// It is not added to, for ever.
TEST_P(EveryDelta, WhatIsNoNumberIsForgotten) {
  Ends ends(GetParam());
  const Tensor sound = rows(3, 0);
  Tensor broken = rows(3, 0);
  broken.as<float>()[kNumbersOfSample - 1] = std::numeric_limits<float>::infinity();
  const auto train_epoch = [&](std::int64_t epoch, const Tensor& sent) {
    double largest = 0;
    for (const std::int64_t step : {2 * epoch, 2 * epoch + 1}) {
      for (const int micro_batch : {0, 1})
        largest = std::max(largest, largest_error(passed(ends, key_of_x(step, micro_batch), sent), sent));
    }
    return largest;
  };
  train_epoch(0, sound);
  train_epoch(1, broken);
  EXPECT_TRUE(std::ranges::any_of(ends.samples(1), [](float number) { return std::isnan(number); }));
  EXPECT_LT(train_epoch(2, sound), 0.3);
  EXPECT_EQ(ends.samples(1), ends.samples(0));
}

INSTANTIATE_TEST_SUITE_P(Reconstructions, EveryDelta, testing::Values(kInt8Delta, kInt4Delta),
                         [](const auto& instance) { return std::string(instance.param); });

// What gets no smaller than as fp16, and what is not of samples.
TEST(Reconstructions, AreOfWhatDifferencesMakeSmaller) {
  const EdgeEncoding encoding(TransportSettings{.activations = kInt8Delta}, {"image"}, kPlaces);
  const TensorType narrow{DType::kF32, Shape{6, 2}};
  EXPECT_TRUE(encoding.is_delta({}, "x", {DType::kF32, Shape{6, kNumbersOfSample}}));
  EXPECT_FALSE(encoding.is_delta({}, "x", narrow));
  EXPECT_EQ(encoding.activation_type({}, "x", narrow), (TensorType{DType::kU8, Shape{24}}));
  EXPECT_EQ(encoding.of_activation({}, "x", narrow).encoding, Encoding::kFloat16);
  EXPECT_FALSE(encoding.is_delta({}, "image", {DType::kF32, Shape{6, kNumbersOfSample}}));
  EXPECT_FALSE(encoding.is_delta({}, "tokens", {DType::kI64, Shape{6, kNumbersOfSample}}));
  EXPECT_TRUE(encoding.has_deltas());
  EXPECT_TRUE(encoding.is_lossy());
  EXPECT_FALSE(encoding.first_of_deltas().has_deltas());
  EXPECT_FALSE(EdgeEncoding({.activations = "int8"}, {}).has_deltas());
}

TEST(Reconstructions, TakeWhatIsPlanned) {
  const std::vector<Stage> stages = stages_of_x();
  const std::int64_t sample = kNumbersOfSample * 4;
  const std::int64_t order = kPlaces * 8;
  const EdgeEncoding encoding = delta(kInt4Delta);
  EXPECT_EQ(Reconstructions::bytes(stages[0], 3, encoding, 0), kPlaces * sample + order) << "x, for both";
  EXPECT_EQ(Reconstructions::bytes(stages[1], 3, encoding, 0), 2 * kPlaces * sample + order) << "x and y";
  EXPECT_EQ(Reconstructions::bytes(stages[1], 3, encoding, 2), 2 * (kPlaces + 6) * sample + order);
  EXPECT_EQ(Reconstructions::bytes(stages[1], 3, {{.activations = "int4"}, {}, kPlaces}, 2), 0);
  Reconstructions made(stages[1], encoding, {three_a_batch(), kPlaces, one_cluster(6)}, 0);
  std::int64_t bytes = order;
  for (const auto& [name, view] : made.state()) {
    EXPECT_TRUE(is_reconstruction_key(name));
    bytes += static_cast<std::int64_t>(view.type.bytes());
  }
  EXPECT_EQ(bytes, Reconstructions::bytes(stages[1], 3, encoding, 0));
  for (const Transfer& transfer : transfers(stages[0], 3, {}, 1, encoding)) {
    if (transfer.is_encoded) {
      EXPECT_EQ(transfer.bytes, 3 * 2 * kNumbersOfSample) << "room for the first time";
    }
  }
}

// What reconstructions are kept of for a batch is kept for a smaller one, too.
TEST(Reconstructions, SmallerBatchesAreSentAgainNoFurther) {
  for (const char* name : {"zb", "zbv"}) {
    const ScheduleSettings schedule{.name = name, .updates_ahead = true};
    for (const int stages : {4, 6}) {
      for (int stage = 0; stage < stages; ++stage) {
        for (int count = 1; count < 12; ++count)
          EXPECT_LE(sent_again(schedule, stage, stages, count),
                    sent_again(schedule, stage, stages, count + 1));
      }
    }
  }
  EXPECT_EQ(sent_again({.name = "zb"}, 1, 4, 8), 0);
}

}  // namespace
}  // namespace rookery
