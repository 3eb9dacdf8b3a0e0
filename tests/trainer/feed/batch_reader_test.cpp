#include "trainer/feed/batch_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <numeric>
#include <thread>

#include "models/base/error.hpp"
#include "models/base/rng.hpp"

namespace rookery {
namespace {

// Sample i is {i, i + 0.5} with label 2 i.
class Slow : public Dataset {
 public:
  std::int64_t size() const override { return 1000; }
  const ValueTypes& tensors() const override { return tensors_; }
  std::int64_t bytes() const override { return 0; }
  bool is_at_hand() const override { return false; }
  std::int64_t bytes_per_reader() const override { return 1000; }
  void gather(const std::string& name, std::span<const std::int64_t> ids, TensorView into) const override {
    ++calls_;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      // Neither readers nor samples come to an end in their order.
      if (ids[i] % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
      if (ids[i] == broken || ids[i] == broken + 1) throw DataError("sample " + std::to_string(ids[i]));
      if (name == kLabels) {
        into.as<std::int64_t>()[i] = 2 * ids[i];
      } else {
        into.as<float>()[2 * i] = static_cast<float>(ids[i]);
        into.as<float>()[2 * i + 1] = static_cast<float>(ids[i]) + 0.5F;
      }
    }
  }
  int calls() const { return calls_; }

  std::int64_t broken = -2;

 private:
  ValueTypes tensors_{{"input", {DType::kF32, {kBatch, 2}}}, {kLabels, {DType::kI64, {kBatch}}}};
  mutable std::atomic<int> calls_ = 0;
};

std::shared_ptr<const std::vector<std::int64_t>> shuffled() {
  return std::make_shared<const std::vector<std::int64_t>>(random_permutation(1000, rng_key(1, "test"), 0));
}

template <typename Number>
std::vector<Number> numbers(std::span<const std::byte> bytes) {
  std::vector<Number> result(bytes.size() / sizeof(Number));
  if (!bytes.empty()) std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

const std::vector<SampleRange> kBatches{{0, 30}, {30, 0}, {40, 30}, {70, 1}, {71, 29}, {100, 30}};

TEST(BatchReader, HandsOutBatchesInTheirOrderWhateverTheNumberOfReaders) {
  const Slow dataset;
  const auto order = shuffled();
  for (const int readers : {1, 2, 8}) {
    for (const int prefetch : {1, 3, 10}) {
      BatchReader reader(dataset, {"input", kLabels}, {.readers = readers, .prefetch = prefetch}, 30);
      reader.start({order, kBatches, {}});
      for (const SampleRange batch : kBatches) {
        reader.next(batch);
        const auto values = numbers<float>(reader.samples("input", {0, batch.count}));
        const auto labels = numbers<std::int64_t>(reader.samples(kLabels, {0, batch.count}));
        for (std::int64_t i = 0; i < batch.count; ++i) {
          const std::int64_t id = (*order)[batch.first + i];
          ASSERT_EQ(values[2 * i + 1], static_cast<float>(id) + 0.5F);
          ASSERT_EQ(labels[i], 2 * id);
        }
        if (batch.count < 5) continue;
        EXPECT_EQ(numbers<std::int64_t>(reader.samples(kLabels, {3, 2})),
                  std::vector<std::int64_t>(labels.begin() + 3, labels.begin() + 5));
      }
    }
  }
}

TEST(BatchReader, ReadsAheadAsManyBatchesAsItIsToldAndNoMore) {
  const Slow dataset;
  BatchReader reader(dataset, {"input"}, {.readers = 2, .prefetch = 2}, 4);
  std::vector<SampleRange> batches;
  for (std::int64_t i = 0; i < 20; ++i) batches.push_back({4 * i, 4});
  reader.start({shuffled(), batches, {}});
  const auto calls_come_to = [&](int expected) {
    while (dataset.calls() < expected) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return dataset.calls();
  };
  EXPECT_EQ(calls_come_to(2), 2) << "nothing is at hand, two are ahead";
  reader.next(batches[0]);
  EXPECT_EQ(calls_come_to(3), 3);
}

TEST(BatchReader, GivesUpWhatIsLeftWhenAnotherPassBegins) {
  const Slow dataset;
  BatchReader reader(dataset, {kLabels}, {.readers = 3, .prefetch = 2}, 30);
  auto order = shuffled();
  for (int pass = 0; pass < 20; ++pass) {
    reader.start({order, kBatches, {}});
    reader.next(kBatches[0]);
    EXPECT_EQ(numbers<std::int64_t>(reader.samples(kLabels, {0, 1})),
              std::vector<std::int64_t>{2 * order->front()});
    order = std::make_shared<const std::vector<std::int64_t>>(order->rbegin(), order->rend());
  }
}

std::vector<std::int64_t> first_label(const BatchReader& reader) {
  return numbers<std::int64_t>(reader.samples(kLabels, {0, 1}));
}

TEST(BatchReader, ReadsOnIntoThePassThatFollows) {
  const Slow dataset;
  const std::vector<SampleRange> two{{0, 4}, {4, 4}};
  auto order = shuffled();
  BatchReader reader(dataset, {kLabels}, {.readers = 2, .prefetch = 2}, 4);
  reader.start({order, two, {}});
  for (int pass = 1; pass < 20; ++pass) {
    const auto next = std::make_shared<const std::vector<std::int64_t>>(order->rbegin(), order->rend());
    reader.follow({next, two, {}});
    for (const SampleRange batch : two) {
      reader.next(batch);
      EXPECT_EQ(first_label(reader), std::vector<std::int64_t>{2 * (*order)[batch.first]});
    }
    const auto read = [&] { return dataset.calls() == 2 * (pass + 1); };
    while (!read()) std::this_thread::yield();  // before it is begun
    reader.start({next, two, {}});
    order = next;
  }
  EXPECT_EQ(dataset.calls(), 40) << "nothing is read twice";
}

TEST(BatchReader, GivesUpThePassThatWasToFollowWhenItIsAnother) {
  const Slow dataset;
  const auto order = shuffled();
  const auto other = std::make_shared<const std::vector<std::int64_t>>(order->rbegin(), order->rend());
  const TrainingPass epoch{.epoch = 1};
  BatchReader reader(dataset, {kLabels}, {.readers = 2, .prefetch = 9}, 30);
  const std::vector<std::int64_t> of_order{2 * order->front()};
  const std::vector<std::int64_t> of_other{2 * other->front()};
  for (int repeat = 0; repeat < 20; ++repeat) {
    reader.start({order, kBatches, epoch});
    reader.follow({order, kBatches, epoch});
    reader.next(kBatches[0]);
    reader.start({order, kBatches, epoch});  // in the middle of the one before
    reader.next(kBatches[0]);
    EXPECT_EQ(first_label(reader), of_order);
    for (std::size_t i = 1; i < kBatches.size(); ++i) reader.next(kBatches[i]);
    reader.follow({order, kBatches, epoch});
    reader.start({other, kBatches, epoch});  // at its end, but with another order
    reader.next(kBatches[0]);
    EXPECT_EQ(first_label(reader), of_other);
  }
}

TEST(BatchReader, TellsTheFirstProblemOfABatchWhenItsTurnHasCome) {
  Slow dataset;
  auto ids = std::make_shared<std::vector<std::int64_t>>(1000);
  std::iota(ids->begin(), ids->end(), 0);
  dataset.broken = 43;  // and 44, the next piece
  for (int repeat = 0; repeat < 10; ++repeat) {
    BatchReader reader(dataset, {"input"}, {.readers = 4, .prefetch = 3}, 30);
    reader.start({ids, kBatches, {}});
    reader.next(kBatches[0]);
    reader.next(kBatches[1]);
    EXPECT_THAT([&] { reader.next(kBatches[2]); },
                testing::ThrowsMessage<DataError>(testing::StrEq("sample 43")));
  }
}

// A server's: eight samples are read side by side. A reader comes back when all are there.
class Far : public Slow {
 public:
  explicit Far(int readers) : there_(readers) {}
  int samples_at_once() const override { return 8; }
  void gather(const std::string& /*name*/, std::span<const std::int64_t> ids,
              TensorView /*into*/) const override {
    most_ = std::max<int>(most_, static_cast<int>(ids.size()));
    there_.arrive_and_wait();
  }
  int most() const { return most_; }

 private:
  mutable std::barrier<> there_;
  mutable std::atomic<int> most_ = 0;
};

TEST(BatchReader, HandsReadersAsManySamplesAsAreReadSideBySideButLeavesNoneWithout) {
  const auto most_of = [](int readers, std::int64_t batches) {
    const Far dataset(readers);
    BatchReader reader(dataset, {"input"}, {.readers = readers, .prefetch = 2}, 4);
    std::vector<SampleRange> fours;
    for (std::int64_t i = 0; i < batches; ++i) fours.push_back({4 * i, 4});
    reader.start({shuffled(), fours, {}});
    for (const SampleRange batch : fours) reader.next(batch);
    return dataset.most();
  };
  EXPECT_EQ(most_of(1, 3), 4) << "all of a batch";
  EXPECT_EQ(most_of(2, 4), 4);
  EXPECT_EQ(most_of(6, 3), 2);
}

TEST(BatchReader, CountsItsMemory) {
  // A sample is two floats and a label.
  EXPECT_EQ(BatchReader::bytes(Slow(), {.readers = 3, .prefetch = 4}, 10), 5 * 10 * 16 + 3 * 1000);
}

}  // namespace
}  // namespace rookery
