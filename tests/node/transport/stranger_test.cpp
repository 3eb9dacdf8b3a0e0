// What somebody costs a node of whose plan he knows nothing, whatever he sends.
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "models/base/libraries/format.hpp"
#include "node/wire/packets.hpp"
#include "tests/node/transport/loopback.hpp"
#include "tests/node/transport/raw_stranger.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kMegabyte = 1'000'000;
constexpr char kMore = 1;       // ZMTP's flag: further frames belong to the message
constexpr char kLongFrame = 2;  // its length has eight bytes
constexpr char kCommand = 4;

class Stranger : public testing::Test {
 protected:
  // Sends `block` again and again until the node closes the connection; what it took until then.
  std::int64_t flood(const std::string& greeting, const std::string& block) {
    RawStranger stranger(links_[0]->address());
    std::int64_t sent = 0;
    if (!stranger.send(greeting)) return sent;
    while (sent < 200 * kMegabyte && stranger.send(block)) sent += static_cast<std::int64_t>(block.size());
    return sent;
  }

  void expect_unharmed() {
    const MessageKey key{.step = step_++, .edge = "x"};
    Tensor sent(DType::kU8, {4});
    sent.as<std::uint8_t>()[0] = 9;
    links_[1]->send(0, key, sent.view());
    Tensor got(DType::kU8, {4});
    links_[0]->receive(1, key, got.view());
    EXPECT_EQ(got.as<std::uint8_t>()[0], 9);
  }

  std::vector<std::unique_ptr<LoopbackLink>> links_ = make_loopback(2, [](LoopbackOptions&) {});
  std::int64_t step_ = 0;
};

std::string one_byte_frames() {
  std::string frames;
  for (int i = 0; i < 50'000; ++i) frames += std::string("\1\0", 2);
  return frames;
}

// The mechanism that ZeroMQ has without settings, and the node's own with a guessed password.
const std::string kNull =
    RawStranger::greeting("NULL") + std::string("\4\x1c\5READY\xbSocket-Type\0\0\0\6DEALER", 30);
const std::string kGuess = RawStranger::greeting("PLAIN") + std::string("\4\x1d\5HELLO\6node_1\x0f", 15) +
                           std::string("no-such-secret!", 15);

TEST_F(Stranger, EndlessMessagesTakeNoMemory) {
  const std::string large =
      RawStranger::large_frame(200 << 10, kMore | kLongFrame) + std::string(200 << 10, 'x');
  const std::string small = one_byte_frames();
  const std::int64_t before = resident_bytes();
  for (const std::string& greeting : {kNull, kGuess, std::string(), RawStranger::greeting("PLAIN")}) {
    for (const std::string& block : {large, small}) {
      // What the kernel's buffers of both sides hold is not the node's.
      EXPECT_LT(flood(greeting, block), 32 * kMegabyte);
      expect_unharmed();
    }
  }
  EXPECT_LT(resident_bytes() - before, 32 * kMegabyte);
}

TEST_F(Stranger, AGigabyteThatIsAnnouncedIsNotTaken) {
  const std::int64_t before = resident_bytes();
  std::vector<std::unique_ptr<RawStranger>> strangers;
  for (int i = 0; i < 8; ++i) {
    strangers.push_back(std::make_unique<RawStranger>(links_[0]->address()));
    strangers.back()->send(RawStranger::greeting("PLAIN") +
                           RawStranger::large_frame(1ULL << 30, kCommand | kLongFrame));
    strangers.back()->send(std::string(4096, 'x'));
  }
  expect_unharmed();
  EXPECT_LT(resident_bytes() - before, 32 * kMegabyte);
}

// As much as a connection may hold before it has to introduce itself.
TEST_F(Stranger, ManyHalfFramesTakeBoundedMemory) {
  const std::string half = RawStranger::greeting("PLAIN") +
                           RawStranger::large_frame(kMaxChunkBytes, kCommand | kLongFrame) +
                           std::string(kMaxChunkBytes - 1, 'x');
  const std::int64_t before = resident_bytes();
  std::int64_t most = before;
  std::vector<std::unique_ptr<RawStranger>> strangers;
  for (int i = 0; i < 400; ++i) {
    strangers.push_back(std::make_unique<RawStranger>(links_[0]->address(), false));
    for (int back = 0; back < 8 && back <= i; ++back) strangers[i - back]->send(half);  // once it is let in
    if (i % 10 == 0) expect_unharmed();
    most = std::max(most, resident_bytes());
  }
  EXPECT_LT(most - before, 64 * kMegabyte);
  expect_unharmed();
}

int open_descriptors() {
  const auto entries = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<int>(std::distance(begin(entries), end(entries)));
}

TEST_F(Stranger, IdleConnectionsLeaveDescriptorsToTheNode) {
  constexpr int kIdle = 400;  // of these descriptors one each is this test's own
  const int before = open_descriptors();
  std::vector<std::unique_ptr<RawStranger>> strangers;
  for (int i = 0; i < kIdle; ++i) {
    strangers.push_back(std::make_unique<RawStranger>(links_[0]->address(), false));
    expect_unharmed();
  }
  // 100 that the node lets in, and at most as many as were in the kernel's queue when it closed the door.
  EXPECT_LT(open_descriptors() - before - kIdle, 100 + 64 + 16);
  expect_unharmed();
}

// What comes after a flood finds the door open again.
TEST_F(Stranger, ANewPeerIsLetInAfterTheIdleOnes) {
  std::vector<std::unique_ptr<LoopbackLink>> links;
  for (int stage = 0; stage < 2; ++stage)
    links.push_back(std::make_unique<LoopbackLink>(loopback_options(stage)));
  std::vector<std::unique_ptr<RawStranger>> strangers;
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(std::make_unique<RawStranger>(links[0]->address(), false));
  }
  join_all(links);
}

}  // namespace
}  // namespace rookery
