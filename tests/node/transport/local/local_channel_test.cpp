#include "node/transport/local/local_channel.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace rookery {
namespace {

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

class OfLocalChannel : public testing::Test {
 protected:
  OfLocalChannel() { meet(); }
  void meet() {
    sender_.begin_session();
    receiver_ = LocalReceiver::open(sender_.offer());
    if (receiver_) sender_.admit(receiver_->memory().reader());
  }
  bool send(const std::string& header) { return sender_.send(bytes_of(header)); }
  // "header/payload" of the next packet; empty: none.
  std::string receive() {
    const auto packet = receiver_->receive();
    return packet ? text_of(packet->header) + "/" + text_of(packet->payload) : "";
  }

  LocalSender sender_;
  std::optional<LocalReceiver> receiver_;
};

// The chunks of one message, as the stream has them.
std::vector<OutgoingChunk> chunks_of(const OutgoingMessage& message) {
  SendStream stream(kMaxChunkBytes);
  stream.push(message);
  stream.resume({0, 1U << 30}, Clock::now());
  std::vector<OutgoingChunk> chunks;
  while (const OutgoingChunk* chunk = stream.next(Clock::now())) chunks.push_back(*chunk);
  return chunks;
}

OutgoingMessage message_of(std::int64_t bytes) {
  OutgoingMessage message{{.edge = "x"}, {DType::kU8, Shape{bytes}}, BufferPool().take(bytes)};
  for (std::int64_t i = 0; i < bytes; ++i) message.bytes.get()[i] = static_cast<std::byte>(i * 7 + i / 256);
  return message;
}

TEST_F(OfLocalChannel, PacketsComeInTheirOrder) {
  ASSERT_TRUE(receiver_) << "the kernel lets no process take another's descriptors";
  EXPECT_EQ(receive(), "");
  EXPECT_TRUE(send("one"));
  EXPECT_TRUE(send("two"));
  EXPECT_EQ(receive(), "one/");
  EXPECT_EQ(receive(), "two/");
  EXPECT_EQ(receive(), "");
  EXPECT_FALSE(receiver_->is_closed());
}

TEST_F(OfLocalChannel, AFewBytesOfAChunkComeInItsPacketAndManyStayInMemory) {
  for (const std::size_t bytes : {std::size_t{0}, kLeastRead - 1, kLeastRead, kMaxChunkBytes}) {
    const OutgoingMessage message = message_of(static_cast<std::int64_t>(bytes));
    const std::vector<OutgoingChunk> chunks = chunks_of(message);
    ASSERT_EQ(chunks.size(), 1U);
    const OutgoingChunk* row[] = {chunks.data()};
    ASSERT_TRUE(sender_.send(row));
    const auto packet = receiver_->receive();
    ASSERT_TRUE(packet);
    const auto chunk = std::get<DataChunk>(decode(packet->header));
    std::vector<std::byte> came(packet->payload.begin(), packet->payload.end());
    EXPECT_EQ(chunk.memory.bytes, bytes < kLeastRead ? 0 : bytes);
    if (bytes >= kLeastRead) {
      EXPECT_TRUE(came.empty());
      came.resize(bytes);
      EXPECT_TRUE(receiver_->memory().read(chunk.memory.address, came));
    }
    EXPECT_EQ(came, std::vector<std::byte>(message.bytes.get(), message.bytes.get() + bytes));
  }
}

TEST_F(OfLocalChannel, ARowOfChunksIsOnePacket) {
  const OutgoingMessage message = message_of(static_cast<std::int64_t>(2 * kMaxChunkBytes + 5));
  const std::vector<OutgoingChunk> chunks = chunks_of(message);
  ASSERT_EQ(chunks.size(), 3U);
  std::vector<const OutgoingChunk*> row{chunks.data()};
  EXPECT_TRUE(goes_on_with(row, chunks[1]));
  EXPECT_FALSE(goes_on_with(row, chunks[2]));
  EXPECT_FALSE(goes_on_with(row, chunks_of(message_of(5)).front()));
  row.insert(row.end(), {&chunks[1], &chunks[2]});
  ASSERT_TRUE(sender_.send(row));
  const auto chunk = std::get<DataChunk>(decode(receiver_->receive().value().header));
  EXPECT_EQ(chunk.memory.bytes, 2 * kMaxChunkBytes + 5);
  EXPECT_EQ(receive(), "");
}

TEST_F(OfLocalChannel, ARowIsNoLongerThanWhatIsReadAtOnce) {
  const std::vector<OutgoingChunk> chunks =
      chunks_of(message_of(static_cast<std::int64_t>(kMostBytesRead + 1)));
  std::vector<const OutgoingChunk*> row{chunks.data()};
  std::size_t next = 1;
  for (; next < chunks.size() && goes_on_with(row, chunks[next]); ++next) row.push_back(&chunks[next]);
  EXPECT_EQ(row.size(), kMostBytesRead / kMaxChunkBytes);
}

TEST_F(OfLocalChannel, NothingIsTakenBeyondWhatTheKernelHoldsUntilSomeIsReceived) {
  const std::string header(1000, 'x');
  int sent = 0;
  while (send(header)) ++sent;
  EXPECT_GT(sent, 10);
  EXPECT_LT(sent, 10'000);
  while (!receive().empty()) --sent;
  EXPECT_EQ(sent, 0);
  EXPECT_TRUE(send(header));
}

TEST_F(OfLocalChannel, WhatWasSentIsReceivedAfterTheSendersEnd) {
  EXPECT_TRUE(send("last"));
  sender_.end_session();
  EXPECT_FALSE(send("more"));
  EXPECT_EQ(receive(), "last/");
  EXPECT_EQ(receive(), "");
  EXPECT_TRUE(receiver_->is_closed());
}

TEST_F(OfLocalChannel, NothingIsSentWhenTheReceiverHasGone) {
  receiver_.reset();
  EXPECT_FALSE(send("one"));
  EXPECT_FALSE(send("two"));
}

TEST_F(OfLocalChannel, ANewSessionHasNothingOfTheOneBefore) {
  const MemoryOffer before = LocalSender().offer();
  EXPECT_TRUE(send("old"));
  std::optional<LocalReceiver> old = std::move(receiver_);
  meet();
  EXPECT_EQ(receive(), "");
  EXPECT_TRUE(send("new"));
  EXPECT_EQ(receive(), "new/");
  EXPECT_EQ(before, MemoryOffer());
  EXPECT_TRUE(old->receive());
  EXPECT_FALSE(old->receive());
  EXPECT_TRUE(old->is_closed());
}

TEST_F(OfLocalChannel, NothingIsSentBeforeTheReceiverIsAdmitted) {
  sender_.begin_session();
  EXPECT_FALSE(send("early"));
  EXPECT_FALSE(LocalReceiver::open({}));
}

// A hello may be old: its number may be that of any other descriptor by now.
TEST_F(OfLocalChannel, ADescriptorOfAnythingElseIsNotTaken) {
  sender_.begin_session();
  LocalSender other;
  other.begin_session();
  for (const int descriptor : {other.offer().socket, open("/dev/null", O_RDONLY | O_CLOEXEC), -1, 1 << 20}) {
    MemoryOffer offer = sender_.offer();
    offer.socket = descriptor;
    EXPECT_FALSE(LocalReceiver::open(offer)) << descriptor;
  }
  MemoryOffer offer = sender_.offer();
  ++offer.mark;
  EXPECT_FALSE(LocalReceiver::open(offer));
  EXPECT_TRUE(LocalReceiver::open(sender_.offer()));
}

// Members of a plan are trusted with it, and with nothing else that the process has open.
TEST_F(OfLocalChannel, ASocketThatIsNoPairOfItsIsNotTaken) {
  sender_.begin_session();
  std::array<int, 2> stream{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream.data()), 0);
  const Descriptor one(stream[0]), other(stream[1]);
  const Descriptor tcp(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Descriptor unconnected(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  for (const Descriptor* socket : {&one, &tcp, &unconnected}) {
    struct stat found {};
    ASSERT_EQ(::fstat(socket->number(), &found), 0);
    MemoryOffer offer = sender_.offer();
    offer.socket = socket->number();
    offer.socket_inode = found.st_ino;
    EXPECT_FALSE(LocalReceiver::open(offer));
  }
}

}  // namespace
}  // namespace rookery
