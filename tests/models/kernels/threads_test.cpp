#include "models/kernels/threads.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <barrier>
#include <mutex>
#include <set>

namespace rookery {
namespace {

constexpr int kTeam = 4;

class TeamOfFour : public testing::Test {
 protected:
  TeamOfFour() { set_kernel_threads(kTeam); }
  ~TeamOfFour() override { set_kernel_threads(1); }
};

// Each member waits for the others, so that all have a round.
std::set<pid_t> members() {
  std::barrier all(kTeam);
  std::mutex mutex;
  std::set<pid_t> ids;
  in_parallel(kTeam, [&](std::int64_t) {
    all.arrive_and_wait();
    const std::scoped_lock lock(mutex);
    ids.insert(gettid());
  });
  return ids;
}

TEST_F(TeamOfFour, KeepsItsThreadsThroughSmallerWork) {
  const std::set<pid_t> before = members();
  ASSERT_EQ(before.size(), static_cast<std::size_t>(kTeam));
  in_parallel(2, [](std::int64_t) {});
  EXPECT_EQ(members(), before);
  in_team(2, [](std::int64_t, std::int64_t, const auto& barrier) { barrier(); });
  EXPECT_EQ(members(), before);
}

TEST_F(TeamOfFour, IsOneForOnePieceOfWork) {
  int calls = 0;
  in_team(1, [&](std::int64_t member, std::int64_t all, const auto& barrier) {
    barrier();
    EXPECT_EQ(member, 0);
    EXPECT_EQ(all, 1);
    ++calls;
  });
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace rookery
