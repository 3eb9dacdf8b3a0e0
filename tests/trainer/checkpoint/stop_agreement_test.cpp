#include "trainer/checkpoint/stop_agreement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "models/base/error.hpp"
#include "tests/support/on_all_nodes.hpp"
#include "trainer/memory_link.hpp"

namespace rookery {
namespace {

constexpr int kStages = 3;
constexpr std::int64_t kSteps = 20;

struct End {
  std::int64_t step = 0;
  std::optional<StopRequest> request;
};

// Stages that wait for each other as in a pipeline: in each step the Root's message goes through all of them,
// and the Leaf's comes back. `signals` is what each stage finds before a step; where each of them ends.
std::vector<End> run(const std::function<int(int stage, std::int64_t step)>& signals,
                     bool comes_back = true) {
  auto links = make_memory_links(kStages, std::chrono::seconds(60));
  std::vector<End> ends(kStages);
  {
    std::vector<std::jthread> threads;
    for (int stage = 0; stage < kStages; ++stage) {
      threads.emplace_back([&, stage] {
        Link& link = *links[stage];
        End& end = ends[stage];
        StopAgreement agreement(Agreement(link, stage, kStages), kSteps,
                                [&, stage] { return signals(stage, end.step); });
        while (end.step < kSteps) {
          const MessageKey there{.kind = MessageKind::kForwardActivation, .step = end.step, .edge = "x"};
          const MessageKey back{.kind = MessageKind::kBackwardGradient, .step = end.step, .edge = "x"};
          if (stage > 0) receive_number(link, stage - 1, there);
          if (stage + 1 < kStages) send_number(link, stage + 1, there, 0);
          if (comes_back && stage + 1 < kStages) receive_number(link, stage + 1, back);
          if (comes_back && stage > 0) send_number(link, stage - 1, back, 0);
          if (++end.step == kSteps) break;
          end.request = agreement.is_due(end.step);
          if (end.request) break;
        }
      });
    }
  }
  return ends;
}

TEST(StopAgreement, AllEndAfterTheSameStepWhoeverIsAsked) {
  for (int asked = 0; asked < kStages; ++asked) {
    for (const std::int64_t when : {1, 2, 7}) {
      const auto ends =
          run([&](int stage, std::int64_t step) { return stage == asked && step >= when ? SIGTERM : 0; });
      for (const End& end : ends) {
        EXPECT_EQ(end.step, ends[0].step);
        EXPECT_EQ(end.request, (StopRequest{asked, SIGTERM}));
      }
      EXPECT_GT(ends[0].step, when);
      EXPECT_LE(ends[0].step,
                when + 3);  // one to tell the Root, which may be a step ahead, and one to tell all
    }
  }
}

// A Root that gets nothing back (it has no parameters to train) may be far ahead.
TEST(StopAgreement, ARootThatIsAheadMeetsTheOthers) {
  const auto ends =
      run([](int stage, std::int64_t step) { return stage == 0 && step >= 9 ? SIGINT : 0; }, false);
  for (const End& end : ends) {
    EXPECT_EQ(end.step, 10);
    EXPECT_EQ(end.request, (StopRequest{0, SIGINT}));
  }
}

TEST(StopAgreement, SeveralAskedAreOneStop) {
  const auto ends = run([](int stage, std::int64_t step) { return step >= 4 ? SIGINT + stage : 0; });
  for (const End& end : ends) {
    EXPECT_EQ(end.step, 5);
    EXPECT_EQ(end.request, (StopRequest{0, SIGINT}));
  }
}

TEST(StopAgreement, InTheLastStepTheRunIsDone) {
  for (int asked = 0; asked < kStages; ++asked) {
    const auto ends =
        run([&](int stage, std::int64_t step) { return stage == asked && step == kSteps - 1 ? SIGINT : 0; });
    for (const End& end : ends) {
      EXPECT_EQ(end.step, kSteps);
      EXPECT_FALSE(end.request.has_value());
    }
  }
}

TEST(StopAgreement, OneStageEndsAtOnce) {
  const auto links = make_memory_links(1, std::chrono::seconds(1));
  int signal = 0;
  StopAgreement agreement(Agreement(*links[0], 0, 1), kSteps, [&] { return signal; });
  EXPECT_FALSE(agreement.is_due(1).has_value());
  signal = SIGHUP;
  EXPECT_EQ(agreement.is_due(2), (StopRequest{0, SIGHUP}));
}

// Roots of several clusters speak a few times a second, from the first step of a run that goes on.
TEST(StopAgreement, ARunThatGoesOnIsStoppedSoon) {
  constexpr std::int64_t kFirst = 1'000'000;
  const auto ends = on_all<std::int64_t>({1, 1}, [](Agreement& agreement, int cluster) {
    std::int64_t step = kFirst;
    StopAgreement stop(agreement, 2 * kFirst, [&] { return cluster == 1 && step > kFirst + 2 ? SIGINT : 0; });
    for (; step < kFirst + 20'000; ++step) {
      if (stop.is_due(step)) break;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return step;
  });
  EXPECT_LT(ends[0][0], kFirst + 20'000);
  EXPECT_EQ(ends[0][0], ends[1][0]);
}

TEST(StopAgreement, NumbersThatNobodyCanHaveSentAreRefused) {
  auto links = make_memory_links(2, std::chrono::seconds(1));
  const auto none = [] { return 0; };
  const auto key = [](const char* what) {
    return MessageKey{.kind = MessageKind::kAgreement, .step = kSteps, .edge = what};
  };
  StopAgreement root(Agreement(*links[0], 0, 2), kSteps, none);
  StopAgreement leaf(Agreement(*links[1], 1, 2), kSteps, none);
  send_number(*links[1], 0, key("a wish to stop"), 1e9);
  EXPECT_THROW(root.is_due(3), TransportError);
  send_number(*links[0], 1, key("the decision to stop"), 2);
  EXPECT_THROW(leaf.is_due(3), TransportError);
}

}  // namespace
}  // namespace rookery
