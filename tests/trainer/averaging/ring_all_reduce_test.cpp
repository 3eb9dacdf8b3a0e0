#include "trainer/averaging/ring/ring_all_reduce.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "models/base/libraries/format.hpp"
#include "trainer/memory_link.hpp"

namespace rookery {
namespace {

using Numbers = std::vector<float>;
using Tensors = std::vector<Numbers>;  // of one member

// By its definition, element by element.
Numbers reference(const std::vector<const Numbers*>& members, const std::vector<float>& factors) {
  const int count = static_cast<int>(members.size());
  Numbers sum(members.front()->size());
  for (int part = 0; part < count; ++part) {
    const auto [begin, end] = ring_part(sum.size(), part, count);
    for (std::size_t i = begin; i < end; ++i) {
      for (int k = 0; k < count; ++k) {
        const auto member = static_cast<std::size_t>((part + k) % count);
        const float share = factors[member] * (*members[member])[i];
        sum[i] = k == 0 ? share : sum[i] + share;
      }
    }
  }
  return sum;
}

// Every member a thread; the bytes that each has sent.
std::vector<std::uint64_t> all_reduce(std::vector<Tensors>& members, const std::vector<float>& factors,
                                      std::int64_t rounds = 1, std::uint64_t under_way = kRingUnderWay) {
  const int count = static_cast<int>(members.size());
  RingLoad load{.tensors = members.front().size()};
  for (const Numbers& tensor : members.front()) load.numbers += tensor.size();
  const RingTraffic traffic = ring_traffic(load, {}, {}, count, under_way);
  const auto links = make_memory_links(count, std::chrono::seconds(60), traffic.messages);
  std::vector<std::uint64_t> sent(members.size());
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank, at = static_cast<std::size_t>(rank)] {
      RingAllReduce ring(*links[at], rank, count, {}, under_way);
      for (std::int64_t round = 0; round < rounds; ++round) {
        std::vector<RingTensor> tensors;
        for (Numbers& tensor : members[at]) tensors.push_back({.numbers = tensor, .factor = factors[at]});
        ring.sum(round, tensors);
      }
      sent[at] = ring.bytes_sent();
    });
  }
  threads.clear();
  return sent;
}

// The same with compression; residuals are taken and left.
void all_reduce_encoded(const std::string& compression, std::vector<Tensors>& members,
                        std::vector<Tensors>& residuals, std::uint64_t under_way = kRingUnderWay) {
  const int count = static_cast<int>(members.size());
  RingLoad load{.tensors = members.front().size()};
  for (const Numbers& tensor : members.front()) load.numbers += tensor.size();
  const Compression parsed = parse_compression(compression);
  const auto links = make_memory_links(count, std::chrono::seconds(60),
                                       ring_traffic({}, load, parsed, count, under_way).messages);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank, at = static_cast<std::size_t>(rank)] {
      std::vector<RingTensor> tensors;
      for (std::size_t i = 0; i < members[at].size(); ++i)
        tensors.push_back({.numbers = members[at][i], .residual = residuals[at][i]});
      RingAllReduce(*links[at], rank, count, parsed, under_way).sum(0, tensors);
    });
  }
}

std::vector<Tensors> random_members(int members, const std::vector<std::size_t>& sizes, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<Tensors> all(members);
  for (Tensors& tensors : all) {
    for (const std::size_t size : sizes) {
      tensors.emplace_back(size);
      for (float& number : tensors.back()) number = normal(random);
    }
  }
  return all;
}

void expect_sums(const std::vector<Tensors>& before, const std::vector<Tensors>& after,
                 const std::vector<float>& factors) {
  for (std::size_t tensor = 0; tensor < before.front().size(); ++tensor) {
    std::vector<const Numbers*> of_members;
    for (const Tensors& tensors : before) of_members.push_back(&tensors[tensor]);
    const Numbers expected = reference(of_members, factors);
    for (std::size_t member = 0; member < after.size(); ++member)
      ASSERT_EQ(after[member][tensor], expected) << "tensor " << tensor << " of member " << member;
  }
}

TEST(RingPart, AreTheWholeTensorAndNearlyEqual) {
  for (const std::size_t elements : {0, 1, 15, 16, 17, 100, 4096, 100'003}) {
    for (const int members : {1, 2, 3, 7, 64}) {
      std::size_t next = 0;
      for (int part = 0; part < members; ++part) {
        const auto [begin, end] = ring_part(elements, part, members);
        EXPECT_EQ(begin, next);
        EXPECT_LE(end - begin, elements / static_cast<std::size_t>(members) + 32);
        next = end;
      }
      EXPECT_EQ(next, elements);
    }
  }
}

RC_GTEST_PROP(RingAllReduce, IsTheSumInItsOrderOnEveryMember, ()) {
  const int members = *rc::gen::inRange(1, 9);
  const auto sizes = *rc::gen::container<std::vector<std::size_t>>(
      rc::gen::oneOf(rc::gen::inRange<std::size_t>(0, 40), rc::gen::inRange<std::size_t>(0, 3000)));
  const std::vector<Tensors> before = random_members(members, sizes, *rc::gen::arbitrary<unsigned>());
  std::vector<float> factors;
  for (int i = 0; i < members; ++i) factors.push_back(static_cast<float>(i + 1) / 7);
  std::vector<Tensors> after = before;
  all_reduce(after, factors);
  if (!sizes.empty()) expect_sums(before, after, factors);
}

TEST(RingAllReduce, SumsManyPiecesAndSendsNoMoreThanItsShare) {
  for (const int members : {2, 3, 5}) {
    SCOPED_TRACE(members);
    const std::vector<std::size_t> sizes{2'000'003, 17, 900'000, 0, 1};
    const std::vector<Tensors> before = random_members(members, sizes, 3);
    std::vector<Tensors> after = before;
    const std::vector<float> factors(members, 1);
    const auto sent = all_reduce(after, factors);
    expect_sums(before, after, factors);
    const double bytes =
        4.0 * static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}));
    for (const std::uint64_t of_member : sent)
      EXPECT_NEAR(static_cast<double>(of_member), 2.0 * (members - 1) / members * bytes,
                  64.0 * 2 * members * 5);
  }
}

// The links take ring_traffic() and no more, so that members would wait for each other if it was too little.
TEST(RingAllReduce, IsTheSameWhateverIsUnderWay) {
  const std::vector<Tensors> before = random_members(3, {2'000'003, 17, 900'000}, 3);
  const std::vector<float> factors(3, 1);
  for (const std::uint64_t under_way : {64U << 10, 1U << 20, 11U << 20, 32U << 20}) {
    SCOPED_TRACE(under_way);
    std::vector<Tensors> after = before;
    all_reduce(after, factors, 1, under_way);
    expect_sums(before, after, factors);
  }
}

TEST(RingTraffic, GrowsWithWhatIsUnderWayAsFarAsThereIsAnythingToSend) {
  const RingLoad large{.numbers = 25'000'000, .tensors = 10};
  const RingLoad small{.numbers = 500'000, .tensors = 10};
  const auto bytes = [](const RingLoad& load, std::uint64_t under_way) {
    const RingTraffic traffic = ring_traffic(load, {}, {}, 2, under_way);
    return traffic.messages * traffic.message_bytes;
  };
  EXPECT_NEAR(static_cast<double>(bytes(large, 24U << 20)), 24 << 20, 1 << 20);
  EXPECT_EQ(bytes(large, kRingUnderWay), bytes({.numbers = 50'000'000, .tensors = 10}, kRingUnderWay));
  EXPECT_EQ(bytes(small, kRingUnderWay), bytes(small, 24U << 20));
}

TEST(RingAllReduce, IsTheSameInOtherRings) {
  const std::vector<Tensors> together = random_members(3, {5000, 70, 40'000, 9}, 5);
  std::vector<Tensors> once = together;
  const std::vector<float> factors{0.5F, 0.25F, 0.25F};
  all_reduce(once, factors);
  for (std::size_t tensor = 0; tensor < 4; ++tensor) {
    std::vector<Tensors> alone;
    for (const Tensors& member : together) alone.push_back({member[tensor]});
    all_reduce(alone, factors);
    for (std::size_t member = 0; member < 3; ++member) EXPECT_EQ(alone[member][0], once[member][tensor]);
  }
}

TEST(RingAllReduce, HasRoundAfterRound) {
  std::vector<Tensors> members = random_members(4, {100, 3}, 7);
  all_reduce(members, {0.25F, 0.25F, 0.25F, 0.25F}, 5);
  for (const Tensors& member : members) EXPECT_EQ(member, members[0]);
}

const std::vector<std::size_t> kSizes{70'003, 5, 4096 * 3, 0, 900};

// What is lost of a sum is in the residuals.
TEST(RingAllReduce, OfEncodedNumbersLosesNothingForGood) {
  for (const char* compression :
       {"fp16", "bf16", "int8", "int4", "topk:0.01", "topk:0.01:8", "topk:0.01:2"}) {
    for (const int members : {2, 3, 5}) {
      SCOPED_TRACE(fmt::format("{}, {} members", compression, members));
      const std::vector<Tensors> before = random_members(members, kSizes, 13);
      std::vector<Tensors> after = before;
      std::vector<Tensors> residuals(before.size());
      for (Tensors& of_member : residuals) {
        for (const std::size_t size : kSizes) of_member.emplace_back(size, 0.25F);
      }
      all_reduce_encoded(compression, after, residuals);
      for (std::size_t member = 1; member < after.size(); ++member) EXPECT_EQ(after[member], after[0]);
      for (std::size_t tensor = 0; tensor < kSizes.size(); ++tensor) {
        double largest = 0;
        for (std::size_t i = 0; i < kSizes[tensor]; ++i) {
          double lost = -after[0][tensor][i];
          for (std::size_t member = 0; member < before.size(); ++member)
            lost += before[member][tensor][i] + 0.25 - residuals[member][tensor][i];
          largest = std::max(largest, std::abs(lost));
        }
        EXPECT_LT(largest, 1e-5) << "tensor " << tensor;
      }
    }
  }
}

TEST(RingAllReduce, OfEncodedNumbersIsTheSameInOtherRings) {
  const std::vector<Tensors> together = random_members(3, kSizes, 5);
  for (const char* compression : {"int8", "int4", "topk:0.02:8"}) {
    std::vector<Tensors> zeros(together.size());
    for (Tensors& of_member : zeros) {
      for (const std::size_t size : kSizes) of_member.emplace_back(size, 0.0F);
    }
    std::vector<Tensors> once = together;
    std::vector<Tensors> residuals = zeros;
    all_reduce_encoded(compression, once, residuals);
    for (std::size_t tensor = 0; tensor < kSizes.size(); ++tensor) {
      std::vector<Tensors> alone;
      std::vector<Tensors> left;
      for (std::size_t member = 0; member < together.size(); ++member) {
        alone.push_back({together[member][tensor]});
        left.push_back({zeros[member][tensor]});
      }
      all_reduce_encoded(compression, alone, left);
      for (std::size_t member = 0; member < alone.size(); ++member) {
        EXPECT_EQ(alone[member][0], once[member][tensor]) << compression;
        EXPECT_EQ(left[member][0], residuals[member][tensor]) << compression;
      }
    }
  }
}

// As in a ring of very many: a piece has a block all the same.
TEST(RingAllReduce, OfEncodedNumbersHasBlocksThatAreMoreThanIsUnderWay) {
  std::vector<Tensors> members = random_members(3, {70'003}, 5);
  std::vector<Tensors> residuals(3, Tensors{Numbers(70'003)});
  all_reduce_encoded("topk:0.9", members, residuals, 16U << 10);
  for (const Tensors& member : members) EXPECT_EQ(member, members[0]);
}

TEST(RingAllReduce, HasUpTo64Members) {
  const std::vector<Tensors> before = random_members(64, {100'000, 63, 70}, 11);
  std::vector<Tensors> after = before;
  const std::vector<float> factors(64, 1);
  all_reduce(after, factors);
  expect_sums(before, after, factors);
}

}  // namespace
}  // namespace rookery
