#include "node/transport/threads/descriptor_set.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "node/transport/local/descriptor.hpp"
#include "node/transport/threads/waker.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(DescriptorSet, TellsThePlacesOfThoseThatCanBeRead) {
  const Waker first;
  Waker second;
  DescriptorSet set;
  set.assign(std::vector{first.descriptor(), -1, second.descriptor()});
  EXPECT_THAT(set.wait(0), IsEmpty());
  second.wake_up();
  EXPECT_THAT(set.wait(1000), ElementsAre(2));
  EXPECT_THAT(set.wait(0), ElementsAre(2)) << "until it was read";
  second.reset();
  EXPECT_THAT(set.wait(0), IsEmpty());
}

TEST(DescriptorSet, ForgetsThoseBefore) {
  Waker before;
  Waker now;
  DescriptorSet set;
  set.assign(std::vector{before.descriptor()});
  before.wake_up();
  set.assign(std::vector{now.descriptor()});
  EXPECT_THAT(set.wait(0), IsEmpty());
  now.wake_up();
  EXPECT_THAT(set.wait(1000), ElementsAre(0));
}

TEST(DescriptorSet, TellsNothingOfWhatWasRemovedAndHasACopyElsewhere) {
  Waker here;
  DescriptorSet set;
  Descriptor copy(::dup(here.descriptor()));
  set.assign(std::vector{copy.number()});
  here.wake_up();
  EXPECT_THAT(set.wait(1000), ElementsAre(0));
  set.remove(copy.number());
  copy.reset();
  EXPECT_THAT(set.wait(0), IsEmpty());
  set.assign(std::vector{-1, here.descriptor()});
  EXPECT_THAT(set.wait(1000), ElementsAre(1));
}

TEST(DescriptorSet, TellsOfManyInTurns) {
  constexpr std::size_t kMany = 200;
  std::vector<std::unique_ptr<Waker>> wakers;
  std::vector<int> descriptors;
  for (std::size_t i = 0; i < kMany; ++i) {
    wakers.push_back(std::make_unique<Waker>());
    wakers.back()->wake_up();
    descriptors.push_back(wakers.back()->descriptor());
  }
  DescriptorSet set;
  set.assign(descriptors);
  std::size_t seen = 0;
  for (auto readable = set.wait(0); !readable.empty(); readable = set.wait(0)) {
    for (const std::size_t place : readable) wakers[place]->reset();
    seen += readable.size();
  }
  EXPECT_EQ(seen, kMany);
}

}  // namespace
}  // namespace rookery
