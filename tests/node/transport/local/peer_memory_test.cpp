#include "node/transport/local/peer_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <optional>
#include <span>
#include <vector>

namespace rookery {
namespace {

std::uint64_t address_of(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}

std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

class OfMemory : public testing::Test {
 protected:
  OfMemory() : reader_(PeerMemory::open(own_.offer())) {
    if (reader_) own_.admit(reader_->reader());
  }
  bool can_read() { return reader_->read(address_of(bytes_.data()), into_); }

  OwnMemory own_;
  std::optional<PeerMemory> reader_;
  std::vector<std::byte> bytes_ = some_bytes(300'000);
  std::vector<std::byte> into_ = std::vector<std::byte>(bytes_.size());
};

TEST_F(OfMemory, BytesAreThoseOfTheOwner) {
  ASSERT_TRUE(reader_);
  ASSERT_TRUE(can_read());
  EXPECT_EQ(into_, bytes_);
}

TEST_F(OfMemory, AnotherMachineHasNone) {
  MemoryOffer offer = own_.offer();
  EXPECT_NE(offer.machine, 0U);
  ++offer.machine;
  EXPECT_FALSE(PeerMemory::open(offer));
  EXPECT_FALSE(PeerMemory::open({}));
}

// As in a container, whose numbers of processes mean others here.
TEST_F(OfMemory, AProcessWithoutTheMarkHasNone) {
  MemoryOffer offer = own_.offer();
  ++offer.mark;
  EXPECT_FALSE(PeerMemory::open(offer));
  offer = own_.offer();
  offer.mark_at = 8;  // nothing lies there
  EXPECT_FALSE(PeerMemory::open(offer));
  for (const int process : {-1, 0}) {
    offer = own_.offer();
    offer.process = process;
    EXPECT_FALSE(PeerMemory::open(offer)) << process;
  }
}

TEST_F(OfMemory, NothingCountsThatTheReadersHalfOfTheMarkIsNotBeside) {
  OwnMemory other;
  const auto reader = PeerMemory::open(other.offer());
  ASSERT_TRUE(reader);
  EXPECT_NE(reader->reader(), 0U);
  EXPECT_FALSE(reader->read(address_of(bytes_.data()), into_));
  other.admit(reader->reader() + 1);
  EXPECT_FALSE(reader->read(address_of(bytes_.data()), into_));
  other.admit(reader->reader());
  EXPECT_TRUE(reader->read(address_of(bytes_.data()), into_));
}

TEST_F(OfMemory, NothingCountsThatIsReadAfterItWasWithdrawn) {
  ASSERT_TRUE(can_read());
  own_.withdraw();
  EXPECT_FALSE(can_read());
}

TEST_F(OfMemory, BytesThatAreNotThereAreNotRead) {
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const mapped = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  std::vector<std::byte> into(2 * page);
  EXPECT_TRUE(reader_->read(address_of(mapped), into));
  munmap(static_cast<std::byte*>(mapped) + page, page);
  EXPECT_FALSE(reader_->read(address_of(mapped), into)) << "the second page is gone";
  munmap(mapped, page);
}

TEST_F(OfMemory, ItGoesWithItsProcess) {
  std::array<int, 2> told{};
  ASSERT_EQ(pipe(told.data()), 0);
  const pid_t child = fork();
  if (child == 0) {  // the same bytes, in a process of their own
    OwnMemory own;
    const MemoryOffer offer = own.offer();
    static_cast<void>(write(told[1], &offer, sizeof offer));
    for (;;) pause();
  }
  MemoryOffer offer;
  ASSERT_EQ(read(told[0], &offer, sizeof offer), static_cast<ssize_t>(sizeof offer));
  EXPECT_EQ(offer.process, child);
  const auto reader = PeerMemory::open(offer);
  EXPECT_TRUE(reader) << "the kernel lets no process read another's memory";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(PeerMemory::open(offer));
  EXPECT_FALSE(reader && reader->read(offer.mark_at, std::span(into_).first(8)));
  for (const int end : told) close(end);
}

}  // namespace
}  // namespace rookery
