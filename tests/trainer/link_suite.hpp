// Tests what every Link must do: a suite over a way to make connected links. A module instantiates it with
//   INSTANTIATE_TEST_SUITE_P(Memory, LinkSuite, testing::Values(LinkMaker{…}), link_maker_name);
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "models/base/error.hpp"
#include "trainer/link.hpp"

namespace rookery {

using Links = std::vector<std::unique_ptr<Link>>;

struct LinkMaker {
  std::string name;
  // Groups of the same processes: one Link per group and rank, connected.
  std::function<std::vector<Links>(int groups, int ranks, std::chrono::milliseconds deadline)> make;
  // The name that messages give the peer.
  std::function<std::string(int stage)> peer_name;
};
inline void PrintTo(const LinkMaker& what, std::ostream* out) {
  *out << what.name;
}

inline std::string link_maker_name(const testing::TestParamInfo<LinkMaker>& info) {
  return info.param.name;
}

class LinkSuite : public testing::TestWithParam<LinkMaker> {
 protected:
  static constexpr std::chrono::milliseconds kPatient{60'000};

  static MessageKey forward(std::int64_t step, std::string edge = "x", int micro_batch = 0) {
    return {.kind = MessageKind::kForwardActivation,
            .step = step,
            .micro_batch = micro_batch,
            .edge = std::move(edge)};
  }
  static MessageKey backward(std::int64_t step, std::string edge = "x") {
    return {.kind = MessageKind::kBackwardGradient, .step = step, .edge = std::move(edge)};
  }

  template <typename T>
  static Tensor tensor_of(const std::vector<T>& values) {
    Tensor tensor(dtype_of<T>(), Shape{static_cast<std::int64_t>(values.size())});
    std::ranges::copy(values, tensor.as<T>().begin());
    return tensor;
  }

  template <typename T>
  static std::vector<T> received(Link& link, int from, const MessageKey& key, std::size_t count) {
    Tensor tensor(dtype_of<T>(), Shape{static_cast<std::int64_t>(count)});
    link.receive(from, key, tensor.view());
    return {tensor.as<T>().begin(), tensor.as<T>().end()};
  }

  template <typename Action>
  static std::string transport_error(Action&& action) {
    try {
      action();
    } catch (const TransportError& error) {
      return error.what();
    }
    return "no TransportError";
  }

  // first, first + 1, … in an order that RapidCheck draws.
  static std::vector<std::int64_t> any_order(std::int64_t first, std::int64_t count) {
    std::vector<std::int64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), first);
    std::ranges::shuffle(numbers, std::mt19937(*rc::gen::arbitrary<std::uint32_t>()));
    return numbers;
  }

  static Links make(int ranks, std::chrono::milliseconds deadline = kPatient) {
    return std::move(GetParam().make(1, ranks, deadline).front());
  }
  static std::vector<Links> make_groups(int groups, int ranks,
                                        std::chrono::milliseconds deadline = kPatient) {
    return GetParam().make(groups, ranks, deadline);
  }
};

TEST_P(LinkSuite, CarriesEveryType) {
  auto links = make(2);
  const std::vector<float> floats{1.5F, -0.0F, 3e38F};
  const std::vector<std::int64_t> integers{-1, 1LL << 62};
  const std::vector<std::uint8_t> bytes{0, 255, 7, 9, 1};
  links[0]->send(1, forward(0, "f"), tensor_of(floats).view());
  links[0]->send(1, forward(0, "i"), tensor_of(integers).view());
  links[0]->send(1, forward(0, "u"), tensor_of(bytes).view());
  EXPECT_EQ(received<float>(*links[1], 0, forward(0, "f"), 3), floats);
  EXPECT_EQ(received<std::int64_t>(*links[1], 0, forward(0, "i"), 2), integers);
  EXPECT_EQ(received<std::uint8_t>(*links[1], 0, forward(0, "u"), 5), bytes);
}

TEST_P(LinkSuite, KeepsEveryDimension) {
  auto links = make(2);
  Tensor sent(DType::kF32, {2, 3, 4});
  std::iota(sent.as<float>().begin(), sent.as<float>().end(), 0.0F);
  Tensor got(DType::kF32, {2, 3, 4});
  links[0]->send(1, forward(0), sent.view());
  links[1]->receive(0, forward(0), got.view());
  EXPECT_TRUE(std::ranges::equal(sent.as<float>(), got.as<float>()));
}

TEST_P(LinkSuite, TakesACopy) {
  auto links = make(2);
  std::vector<float> values{1, 2, 3};
  Tensor tensor = tensor_of(values);
  links[0]->send(1, forward(0), tensor.view());
  std::ranges::fill(tensor.as<float>(), 0.0F);
  EXPECT_EQ(received<float>(*links[1], 0, forward(0), 3), values);
}

TEST_P(LinkSuite, ManySmallTensorsArriveEachUnderItsKey) {
  constexpr std::int64_t kCount = 5000;
  auto links = make(2);
  std::jthread sender([&] {
    for (std::int64_t i = 0; i < kCount; ++i)
      links[0]->send(1, forward(i), tensor_of<std::int64_t>({i, -i}).view());
  });
  for (std::int64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(received<std::int64_t>(*links[1], 0, forward(i), 2), (std::vector<std::int64_t>{i, -i}));
  }
}

TEST_P(LinkSuite, KeysMayBeAskedForInAnotherOrder) {
  auto links = make(2);
  for (const char* edge : {"a", "b", "c"}) {
    for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
      links[0]->send(1, forward(4, edge, micro_batch),
                     tensor_of<std::int64_t>({edge[0], micro_batch}).view());
    }
  }
  for (int micro_batch = 2; micro_batch >= 0; --micro_batch) {
    for (const char* edge : {"c", "a", "b"}) {
      EXPECT_EQ(received<std::int64_t>(*links[1], 0, forward(4, edge, micro_batch), 2),
                (std::vector<std::int64_t>{edge[0], micro_batch}));
    }
  }
}

TEST_P(LinkSuite, MessagesOfEveryKindAreKeptApart) {
  auto links = make(2);
  const auto key = [](int kind) { return MessageKey{.kind = static_cast<MessageKind>(kind), .step = 3}; };
  for (int kind = 0; kind < kMessageKinds; ++kind) send_number(*links[0], 1, key(kind), 0.1 * kind);
  for (int kind = kMessageKinds; kind-- > 0;) EXPECT_EQ(receive_number(*links[1], 0, key(kind)), 0.1 * kind);
}

TEST_P(LinkSuite, EveryPartOfTheKeyCounts) {
  auto links = make(2);
  const MessageKey base = forward(1, "x", 1);
  std::vector<MessageKey> keys(5, base);
  keys[1].kind = MessageKind::kBackwardGradient;
  keys[2].validation = true;
  keys[3].step = 2;
  keys[4].edge = "y";
  for (std::size_t i = 0; i < keys.size(); ++i) {
    links[0]->send(1, keys[i], tensor_of<std::int64_t>({static_cast<std::int64_t>(i)}).view());
  }
  for (std::size_t i = keys.size(); i-- > 0;) {
    EXPECT_EQ(received<std::int64_t>(*links[1], 0, keys[i], 1).front(), static_cast<std::int64_t>(i));
  }
}

TEST_P(LinkSuite, BigTensors) {
  constexpr std::int64_t kElements = 5 << 20;  // 20 MiB
  auto links = make(2);
  std::jthread sender([&] {
    for (std::int64_t step = 0; step < 3; ++step) {
      Tensor tensor(DType::kF32, {kElements});
      std::iota(tensor.as<float>().begin(), tensor.as<float>().end(), static_cast<float>(step));
      links[0]->send(1, forward(step), tensor.view());
    }
  });
  for (std::int64_t step = 0; step < 3; ++step) {
    Tensor tensor(DType::kF32, {kElements});
    links[1]->receive(0, forward(step), tensor.view());
    std::vector<float> expected(kElements);
    std::iota(expected.begin(), expected.end(), static_cast<float>(step));
    ASSERT_TRUE(std::ranges::equal(tensor.as<float>(), expected));
  }
}

TEST_P(LinkSuite, EmptyTensors) {
  auto links = make(2);
  links[0]->send(1, forward(0), Tensor(DType::kF32, {0, 4}).view());
  Tensor into(DType::kF32, {0, 4});
  EXPECT_NO_THROW(links[1]->receive(0, forward(0), into.view()));
}

TEST_P(LinkSuite, BothDirectionsAtOnce) {
  constexpr std::int64_t kSteps = 200;
  constexpr std::size_t kElements = 1 << 15;
  auto links = make(2);
  const auto run = [&](int self, MessageKey (*out)(std::int64_t, std::string),
                       MessageKey (*in)(std::int64_t, std::string)) {
    const int peer = 1 - self;
    for (std::int64_t step = 0; step < kSteps; ++step) {
      const std::vector<float> sent(kElements, static_cast<float>(step * 2 + self));
      const std::vector<float> expected(kElements, static_cast<float>(step * 2 + peer));
      links[self]->send(peer, out(step, "x"), tensor_of(sent).view());
      ASSERT_EQ(received<float>(*links[self], peer, in(step, "x"), kElements), expected);
    }
  };
  const auto ahead = [](std::int64_t step, std::string edge) { return forward(step, std::move(edge)); };
  std::jthread other([&] { run(1, &LinkSuite::backward, ahead); });
  run(0, ahead, &LinkSuite::backward);
}

TEST_P(LinkSuite, StagesReachEachOtherDirectly) {
  constexpr int kStages = 4;
  auto links = make(kStages);
  std::vector<std::jthread> threads;
  for (int self = 0; self < kStages; ++self) {
    threads.emplace_back([&links, self] {
      Link& link = *links[self];
      for (int peer = 0; peer < kStages; ++peer) {
        if (peer != self) link.send(peer, forward(0), tensor_of<std::int64_t>({self * 10 + peer}).view());
      }
      for (int peer = 0; peer < kStages; ++peer) {
        if (peer == self) continue;
        EXPECT_EQ(received<std::int64_t>(link, peer, forward(0), 1).front(), peer * 10 + self);
      }
      link.flush();
    });
  }
}

TEST_P(LinkSuite, FlushReturnsOnceAllHasArrived) {
  auto links = make(2);
  links[0]->flush();  // nothing under way
  std::jthread receiver([&] {
    for (std::int64_t i = 0; i < 20; ++i) received<std::int64_t>(*links[1], 0, forward(i), 1);
  });
  for (std::int64_t i = 0; i < 20; ++i) links[0]->send(1, forward(i), tensor_of<std::int64_t>({i}).view());
  EXPECT_NO_THROW(links[0]->flush());
}

TEST_P(LinkSuite, AReceiveThatGetsNothingNamesPeerKeyAndTime) {
  auto links = make(2, std::chrono::milliseconds(50));
  Tensor into(DType::kF32, {1});
  const std::string message =
      transport_error([&] { links[1]->receive(0, forward(41, "relu_1_out"), into.view()); });
  EXPECT_THAT(message, testing::HasSubstr("activation relu_1_out of step 41, micro-batch 0"));
  EXPECT_THAT(message, testing::HasSubstr(GetParam().peer_name(0)));
  EXPECT_THAT(message, testing::ContainsRegex("50 ?ms|0\\.05 ?s"));
}

TEST_P(LinkSuite, ASenderThatIsNotReadWaitsAndThenFails) {
  auto links = make(2, std::chrono::milliseconds(50));
  const Tensor tensor(DType::kF32, {1 << 18});
  const std::string message = transport_error([&] {
    for (std::int64_t step = 0; step < 100'000; ++step) links[0]->send(1, forward(step), tensor.view());
  });
  EXPECT_THAT(message, testing::HasSubstr("activation x of step"));
  EXPECT_THAT(message, testing::HasSubstr(GetParam().peer_name(1)));
}

TEST_P(LinkSuite, AnotherTypeThanExpectedIsRefused) {
  auto links = make(2);
  links[0]->send(1, forward(0, "a"), tensor_of<float>({1, 2}).view());
  links[0]->send(1, forward(0, "b"), tensor_of<float>({1, 2}).view());
  Tensor integers(DType::kI64, {2});
  Tensor longer(DType::kF32, {3});
  EXPECT_THAT(transport_error([&] { links[1]->receive(0, forward(0, "a"), integers.view()); }),
              testing::AllOf(testing::HasSubstr("activation a of step 0"), testing::HasSubstr("i64[2]"),
                             testing::HasSubstr("f32[2]")));
  EXPECT_THAT(transport_error([&] { links[1]->receive(0, forward(0, "b"), longer.view()); }),
              testing::HasSubstr("f32[3]"));
}

TEST_P(LinkSuite, BytesAreHandedOn) {
  auto links = make(2);
  for (const std::int64_t count : {0, 1, 1000, 100'000}) {
    const TensorType type{DType::kI32, Shape{count}};
    MessageBytes sent = links[0]->make_bytes(type.bytes());
    std::iota(reinterpret_cast<std::int32_t*>(sent.get()),
              reinterpret_cast<std::int32_t*>(sent.get()) + count, 7);
    links[0]->send_bytes(1, forward(count), type, std::move(sent));
    MessageBytes there = links[1]->receive_bytes(0, forward(count), type);
    for (std::int64_t i = 0; i < count; ++i) ++reinterpret_cast<std::int32_t*>(there.get())[i];
    links[1]->send_bytes(0, backward(count), type, std::move(there));
    const auto back = received<std::int32_t>(*links[0], 1, backward(count), static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(back[i], i + 8);
  }
  links[0]->send(1, forward(1), tensor_of<std::int64_t>({1}).view());
  EXPECT_THAT(transport_error([&] {
                links[1]->receive_bytes(0, forward(1), {DType::kF32, Shape{2}});
              }),
              testing::HasSubstr("f32[2]"));
}

TEST_P(LinkSuite, AReceiveIsBegunBeforeAnythingCameAndTestedUntilItIsDone) {
  auto links = make(2);
  Tensor first(DType::kI64, {2});
  Tensor second(DType::kI64, {2});
  const auto of_second = links[1]->begin_receive(0, forward(2), second.view());
  const auto of_first = links[1]->begin_receive(0, forward(1), first.view());
  EXPECT_FALSE(of_first->test());
  links[0]->send(1, forward(1), tensor_of<std::int64_t>({1, 2}).view());
  while (!of_first->test()) std::this_thread::yield();
  EXPECT_TRUE(of_first->test());  // and again
  EXPECT_EQ(first.as<std::int64_t>()[1], 2);
  EXPECT_FALSE(of_second->test());
  links[0]->send(1, forward(2), tensor_of<std::int64_t>({3, 4}).view());
  of_second->wait();
  of_second->wait();
  EXPECT_EQ(second.as<std::int64_t>()[1], 4);
}

TEST_P(LinkSuite, ASendIsDoneOnceTheTensorsMemoryIsTheCallersAgain) {
  auto links = make(2);
  Tensor tensor = tensor_of<std::int64_t>({1, 2});
  const auto begun = links[0]->begin_send(1, forward(0), tensor.view());
  EXPECT_TRUE(begun->test());  // there is room
  std::ranges::fill(tensor.as<std::int64_t>(), 0);
  EXPECT_EQ(received<std::int64_t>(*links[1], 0, forward(0), 2), (std::vector<std::int64_t>{1, 2}));
  begun->wait();
}

// Without room a send is begun all the same, and goes when there is.
TEST_P(LinkSuite, SendsBegunBeyondTheRoomGoAsItGrows) {
  constexpr std::int64_t kElements = 1 << 21;  // 16 MiB
  constexpr std::int64_t kCount = 100;
  auto links = make(2);
  Tensor tensor(DType::kI64, {kElements});
  std::iota(tensor.as<std::int64_t>().begin(), tensor.as<std::int64_t>().end(), 0);
  std::vector<std::unique_ptr<PendingTransfer>> begun;
  std::int64_t step = 0;
  do {
    begun.push_back(links[0]->begin_send(1, forward(step++), tensor.view()));
  } while (begun.back()->test() && step < kCount);
  EXPECT_LT(step, kCount) << "nothing bounds what is under way";
  std::jthread receiver([&] {
    Tensor into(DType::kI64, {kElements});
    for (std::int64_t i = 0; i < step; ++i) {
      links[1]->receive(0, forward(i), into.view());
      EXPECT_TRUE(std::ranges::equal(into.as<std::int64_t>(), tensor.as<std::int64_t>()));
    }
  });
  for (const auto& each : begun) each->wait();
  links[0]->flush();
}

TEST_P(LinkSuite, WaitingForABegunReceiveNamesPeerKeyAndTime) {
  auto links = make(2, std::chrono::milliseconds(50));
  Tensor into(DType::kF32, {1});
  const auto begun = links[1]->begin_receive(0, forward(41, "relu_1_out"), into.view());
  EXPECT_FALSE(begun->test());
  const std::string message = transport_error([&] { begun->wait(); });
  EXPECT_THAT(message, testing::HasSubstr("activation relu_1_out of step 41, micro-batch 0"));
  EXPECT_THAT(message, testing::HasSubstr(GetParam().peer_name(0)));
  EXPECT_THAT(message, testing::ContainsRegex("50 ?ms|0\\.05 ?s"));
}

TEST_P(LinkSuite, ReceivesBegunAndDoneInAnyOrderGetTheirOwn) {
  constexpr std::int64_t kCount = 24;
  auto links = make(2);
  std::int64_t step = 0;
  EXPECT_TRUE(rc::check("any order of sends, of begun receives and of waits", [&] {
    const std::vector<std::int64_t> sent = any_order(step, kCount);
    const std::vector<std::int64_t> begun = any_order(step, kCount);
    const std::vector<std::int64_t> waited = any_order(step, kCount);
    step += kCount;
    std::map<std::int64_t, Tensor> into;
    std::map<std::int64_t, std::unique_ptr<PendingTransfer>> receives;
    const auto begin = [&](std::int64_t each) {
      into[each] = Tensor(DType::kI64, {1});
      receives[each] = links[1]->begin_receive(0, forward(each), into[each].view());
    };
    std::for_each(begun.begin(), begun.begin() + kCount / 2, begin);
    for (const std::int64_t each : sent)
      links[0]->send(1, forward(each), tensor_of<std::int64_t>({each}).view());
    std::for_each(begun.begin() + kCount / 2, begun.end(), begin);
    for (const std::int64_t each : waited) {
      receives[waited.back()]->test();
      receives[each]->wait();
      RC_ASSERT(into[each].as<std::int64_t>()[0] == each);
    }
  }));
}

TEST_P(LinkSuite, TheSameKeyInTwoGroupsIsTwoMessages) {
  auto groups = make_groups(3, 2);
  for (std::int64_t group = 0; group < 3; ++group)
    groups[group][0]->send(1, forward(0), tensor_of<std::int64_t>({group}).view());
  for (std::int64_t group = 3; group-- > 0;)
    EXPECT_EQ(received<std::int64_t>(*groups[group][1], 0, forward(0), 1).front(), group);
}

TEST_P(LinkSuite, AGroupThatIsNotReadLeavesOthersTheirRoom) {
  auto groups = make_groups(2, 2, std::chrono::milliseconds(50));
  const Tensor tensor(DType::kF32, {1 << 18});
  EXPECT_THAT(transport_error([&] {
                for (std::int64_t step = 0; step < 100'000; ++step)
                  groups[0][0]->send(1, forward(step), tensor.view());
              }),
              testing::HasSubstr("activation x of step"));
  EXPECT_TRUE(groups[1][0]->begin_send(1, forward(0), tensor_of<std::int64_t>({7}).view())->test());
  const auto begun = std::chrono::steady_clock::now();
  std::int64_t got = 0;
  const auto receive =
      groups[1][1]->begin_receive(0, forward(0), {{DType::kI64, {1}}, reinterpret_cast<std::byte*>(&got)});
  while (!receive->test() && std::chrono::steady_clock::now() - begun < kPatient) std::this_thread::yield();
  EXPECT_EQ(got, 7);
}

TEST_P(LinkSuite, AGroupThatEndsDisturbsNoOther) {
  auto groups = make_groups(2, 3);
  std::int64_t got = 0;
  const auto pending =
      groups[1][1]->begin_receive(0, forward(0), {{DType::kI64, {1}}, reinterpret_cast<std::byte*>(&got)});
  groups[0][0].reset();
  Tensor into(DType::kF32, {1});
  EXPECT_THAT(transport_error([&] { groups[0][1]->receive(0, forward(0), into.view()); }),
              testing::HasSubstr(GetParam().peer_name(0)));
  EXPECT_FALSE(pending->test());
  groups[1][0]->send(1, forward(0), tensor_of<std::int64_t>({7}).view());
  pending->wait();
  EXPECT_EQ(got, 7);
}

TEST_P(LinkSuite, APeerThatEndsIsNamedLongBeforeTheDeadline) {
  auto links = make(3);
  std::jthread ending([&] { links[0].reset(); });
  Tensor into(DType::kF32, {1});
  EXPECT_THAT(transport_error([&] { links[1]->receive(0, forward(0), into.view()); }),
              testing::HasSubstr(GetParam().peer_name(0)));
}

}  // namespace rookery
