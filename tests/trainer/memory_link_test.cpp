#include "trainer/memory_link.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "models/base/check.hpp"
#include "tests/trainer/link_suite.hpp"

namespace rookery {

INSTANTIATE_TEST_SUITE_P(Memory, LinkSuite,
                         testing::Values(LinkMaker{
                             .name = "MemoryLink",
                             .make =
                                 [](int groups, int ranks, std::chrono::milliseconds deadline) {
                                   std::vector<Links> made;
                                   for (int group = 0; group < groups; ++group)
                                     made.push_back(make_memory_links(ranks, deadline));
                                   return made;
                                 },
                             .peer_name = [](int rank) { return "rank " + std::to_string(rank); }}),
                         link_maker_name);

namespace {

TEST(MessageKey, ReadsAsASentence) {
  const MessageKey key{.step = 41, .micro_batch = 2, .edge = "relu_1_out"};
  EXPECT_EQ(to_string(key), "activation relu_1_out of step 41, micro-batch 2");
  EXPECT_EQ(to_string(MessageKey{.kind = MessageKind::kBackwardGradient, .edge = "x"}),
            "gradient of x of step 0, micro-batch 0");
  EXPECT_EQ(to_string(MessageKey{.validation = true, .step = 3, .edge = "x"}),
            "activation x of validation batch 3, micro-batch 0");
}

TEST(MemoryLink, TheBoundHoldsBackTheSender) {
  auto links = make_memory_links(2, std::chrono::milliseconds(20), 2);
  const Tensor tensor(DType::kF32, {1});
  links[0]->send(1, {.step = 0, .edge = "x"}, tensor.view());
  links[0]->send(1, {.step = 1, .edge = "x"}, tensor.view());
  EXPECT_THROW(links[0]->send(1, {.step = 2, .edge = "x"}, tensor.view()), TransportError);
  Tensor into(DType::kF32, {1});
  links[1]->receive(0, {.step = 1, .edge = "x"}, into.view());
  EXPECT_NO_THROW(links[0]->send(1, {.step = 2, .edge = "x"}, tensor.view()));
}

TEST(MemoryLink, WhatWasSentOutlivesTheSender) {
  auto links = make_memory_links(2, std::chrono::milliseconds(20));
  const Tensor tensor(DType::kF32, {1});
  links[0]->send(1, {.edge = "x"}, tensor.view());
  links[0].reset();
  Tensor into(DType::kF32, {1});
  EXPECT_NO_THROW(links[1]->receive(0, {.edge = "x"}, into.view()));
  EXPECT_THROW(links[1]->receive(0, {.edge = "y"}, into.view()), TransportError);
}

TEST(MemoryLink, AKeySentTwiceIsABug) {
  auto links = make_memory_links(2, std::chrono::milliseconds(20));
  const Tensor tensor(DType::kF32, {1});
  links[0]->send(1, {.edge = "x"}, tensor.view());
  EXPECT_THROW(links[0]->send(1, {.edge = "x"}, tensor.view()), BugError);
  EXPECT_THROW(links[0]->send(0, {.edge = "x"}, tensor.view()), BugError);
}

}  // namespace
}  // namespace rookery
