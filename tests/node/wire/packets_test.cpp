#include "node/wire/packets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <variant>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "tests/support/repository.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

// Magic, version, type.
constexpr std::size_t kPreamble = 7;

DataChunk a_chunk() {
  return {.group = 3,
          .sequence = 7,
          .key = {.kind = MessageKind::kBackwardGradient,
                  .validation = false,
                  .step = 41,
                  .micro_batch = 2,
                  .edge = "relu_1_out"},
          .type = {DType::kF32, Shape{64, 16, 4, 4}},
          .total = 65536,
          .offset = 1024,
          .memory = {}};
}

std::vector<Packet> one_of_each() {
  std::vector<Packet> packets{
      CtlHello{1ULL << 63, "node_1", Channel::kData, 3, {1ULL << 62, 4711, 1ULL << 47, 12}},
      CtlWelcome{99, Channel::kData, 3, {{0, {12, 4096}}, {7, {13, 4097}}}, 1ULL << 61},
      CtlHeartbeat{{{0, {5, 6}, 7, -1}, {3, {8, 9}, 10, 2}}},
      CtlAck{5, {1, 2}},
      CtlAckRequest{6},
      CtlStatus{1, 3, 41, 0.25, 97.5},
      CtlStop{2, "node_2", "was stopped by SIGTERM", 15},
      CtlBye{3, true},
      CtlJoin{4, 1, 3, true, {5, 6}},
      CtlReopen{Channel::kData},
      CtlFigures{1, {10.5, 7.25, 2.5, 1ULL << 30, 41, 82, 3, 0.5, 1ULL << 35, {0, 1ULL << 40}}}};
  for (int kind = 0; kind < kMessageKinds; ++kind) {
    DataChunk chunk = a_chunk();
    chunk.key.kind = static_cast<MessageKind>(kind);
    packets.emplace_back(chunk);
  }
  return packets;
}

std::string refusal(std::span<const std::byte> header) {
  try {
    decode(header);
  } catch (const TransportError& error) {
    return error.what();
  }
  return "accepted";
}

// A header with `value` written over its bytes at `offset`.
template <typename T>
std::vector<std::byte> with(std::vector<std::byte> header, std::size_t offset, T value) {
  std::memcpy(header.data() + offset, &value, sizeof value);
  return header;
}

TEST(Packets, ComeBackAsTheyWere) {
  for (const Packet& packet : one_of_each()) EXPECT_EQ(decode(encode(packet)), packet) << name_of(packet);
}

TEST(Packets, TheNamesSayTheDirection) {
  EXPECT_STREQ(name_of(a_chunk()), "BwdGradient");
  EXPECT_STREQ(name_of(CtlBye{}), "CtlBye");
}

TEST(Packets, ProtocolMdHasARowForEach) {
  const std::string page = read_file(kRepository / "node/PROTOCOL.md", 1 << 20);
  for (const Packet& packet : one_of_each()) {
    const bool is_data = std::holds_alternative<DataChunk>(packet);
    const auto type = std::to_integer<int>(encode(packet).at(kPreamble - 1));
    const std::string row = fmt::format("\n| {} | {} |{}", type, name_of(packet), is_data ? " data |" : "");
    EXPECT_THAT(page, HasSubstr(row));
  }
}

TEST(Packets, BytesAreAsWrittenInProtocolMd) {
  const std::vector<std::byte> header = encode(CtlAck{5, {0x0102, 0x03}});
  const std::vector<unsigned char> expected = {'R', 'O', 'O', 'K', 10, 0, 4, 5, 0, 0, 0, 2, 1, 0,
                                               0,   0,   0,   0,   0,  3, 0, 0, 0, 0, 0, 0, 0};
  ASSERT_EQ(header.size(), expected.size());
  EXPECT_EQ(std::memcmp(header.data(), expected.data(), expected.size()), 0);
}

TEST(Packets, EveryTruncationIsRefused) {
  for (const Packet& packet : one_of_each()) {
    const std::vector<std::byte> header = encode(packet);
    for (std::size_t size = 0; size < header.size(); ++size) {
      EXPECT_NE(refusal(std::span(header).first(size)), "accepted")
          << name_of(packet) << " of " << size << " bytes";
    }
  }
}

TEST(Packets, TrailingBytesAreRefused) {
  for (const Packet& packet : one_of_each()) {
    std::vector<std::byte> header = encode(packet);
    header.push_back(std::byte{0});
    EXPECT_THAT(refusal(header), HasSubstr("1 bytes after the end")) << name_of(packet);
  }
}

TEST(Packets, AnotherVersionIsNamed) {
  const auto header = with(encode(CtlBye{}), 4, std::uint16_t{11});
  EXPECT_THAT(refusal(header), testing::AllOf(HasSubstr("version 11"), HasSubstr("speaks 10")));
}

TEST(Packets, AnotherMagicIsNoPacket) {
  EXPECT_THAT(refusal(with(encode(CtlBye{}), 0, 'X')), HasSubstr("not a packet"));
}

TEST(Packets, AnUnknownTypeIsRefused) {
  constexpr int kControlTypes = std::variant_size_v<Packet> - 1;
  for (const int type : {0, kControlTypes + 1, 15, 16 + kMessageKinds, 200}) {
    EXPECT_THAT(refusal(with(encode(CtlBye{}), 6, static_cast<std::uint8_t>(type))),
                HasSubstr("packet type " + std::to_string(type) + ", which is unknown"));
  }
}

TEST(Packets, AHostileLengthTakesNoMemory) {
  // The count of the node's name, after the nonce, claims 4 GiB.
  const auto header = with(encode(one_of_each()[0]), kPreamble + 8, std::uint32_t{0xFFFFFFFF});
  EXPECT_THAT(refusal(header), HasSubstr("length beyond its end"));
}

TEST(Packets, ATaleOfTooManyGroupsIsRefused) {
  // The count of groups is all that a heartbeat begins with.
  const std::vector<std::byte> header = encode(CtlHeartbeat{std::vector<GroupState>(kMostGroups)});
  EXPECT_LE(header.size(), kMaxHeaderBytes);
  EXPECT_THAT(refusal(with(header, kPreamble, std::uint32_t{kMostGroups + 1})),
              HasSubstr("tells of 65 groups; the limit is 64"));
}

TEST(Packets, ATensorThatOverflowsIsRefused) {
  DataChunk chunk = a_chunk();
  chunk.type.shape = Shape{1LL << 31, 1LL << 31, 4};
  chunk.total = 0;  // what the product would be without care
  chunk.offset = 0;
  EXPECT_THAT(refusal(encode(chunk)), HasSubstr("too large"));
}

TEST(Packets, ATotalThatIsNotTheShapesIsRefused) {
  DataChunk chunk = a_chunk();
  chunk.total += 4;
  EXPECT_THAT(refusal(encode(chunk)), HasSubstr("does not add up"));
  chunk = a_chunk();
  chunk.offset = chunk.total + 1;
  EXPECT_THAT(refusal(encode(chunk)), HasSubstr("does not add up"));
}

TEST(Packets, AChunkInMemoryHasTheSameHeaderButForWhereItIs) {
  DataChunk chunk = a_chunk();
  const std::vector<std::byte> sent = encode(chunk);
  chunk.memory = {0x7f00'0000'1000, kMostBytesRead};
  EXPECT_EQ(encode_in_memory(sent, chunk.memory), encode(chunk));
  EXPECT_EQ(std::get<DataChunk>(decode(encode(chunk))), chunk);
  chunk.memory.bytes = kMostBytesRead + 1;
  EXPECT_THAT(refusal(encode(chunk)), HasSubstr("4194305 bytes to be read at once; the limit is 4194304"));
}

TEST(Packets, ANegativeDimensionIsRefused) {
  std::vector<std::byte> header = encode(a_chunk());
  const std::array<std::byte, 8> sixty_four{std::byte{64}};
  const auto dimension = std::search(header.begin(), header.end(), sixty_four.begin(), sixty_four.end());
  ASSERT_NE(dimension, header.end());
  std::fill_n(dimension, 8, std::byte{0xFF});
  EXPECT_THAT(refusal(header), HasSubstr("dimension of -1"));
}

TEST(Packets, ALongReasonIsCut) {
  const CtlStop stop{0, "node_0", std::string(100'000, 'x'), 0};
  const std::vector<std::byte> header = encode(stop);
  EXPECT_LE(header.size(), kMaxHeaderBytes);
  EXPECT_THAT(std::get<CtlStop>(decode(header)).reason, testing::StartsWith("xxx"));
}

TEST(Packets, AHeaderBeyondTheLimitIsNotRead) {
  EXPECT_THAT(refusal(std::vector<std::byte>(kMaxHeaderBytes + 1)),
              HasSubstr("a 4097-byte header; the limit is 4096"));
}

// Whatever the bytes: a packet or a TransportError.
RC_GTEST_PROP(PacketsProperty, RandomBytesNeverCrash, ()) {
  const auto bytes = *rc::gen::container<std::vector<unsigned char>>(rc::gen::arbitrary<unsigned char>());
  refusal(std::as_bytes(std::span(bytes)));
}

RC_GTEST_PROP(PacketsProperty, MutatedHeadersNeverCrash, ()) {
  std::vector<std::byte> header = encode(*rc::gen::elementOf(one_of_each()));
  const int changes = *rc::gen::inRange(1, 6);
  for (int i = 0; i < changes; ++i) {
    header[*rc::gen::inRange<std::size_t>(kPreamble - 1, header.size())] =
        static_cast<std::byte>(*rc::gen::inRange(0, 256));
  }
  try {
    const Packet packet = decode(header);
    RC_ASSERT(decode(encode(packet)) == packet);
  } catch (const TransportError&) {
  }
}

}  // namespace
}  // namespace rookery
