// The messages of node_benchmark, over plain TCP: PROTOCOL.md, "Benchmarks".
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace rookery {

constexpr std::array<char, 4> kBenchmarkMagic = {'R', 'K', 'B', 'M'};
constexpr std::uint16_t kBenchmarkVersion = 5;
constexpr std::uint32_t kMostBenchmarkPayload = 256U << 10;  // as large as the chunks of a provider
// That a request may ask for before its answer.
constexpr std::chrono::milliseconds kMostBenchmarkRest{10};

enum class BenchmarkKind : std::uint16_t { kRequest = 0, kReply = 1, kBusy = 2, kCallBack = 3 };

// Before every payload.
struct BenchmarkHeader {
  std::array<char, 4> magic = kBenchmarkMagic;
  std::uint16_t version = kBenchmarkVersion;
  BenchmarkKind kind = BenchmarkKind::kRequest;
  std::uint32_t number = 0;         // a reply has its request's
  std::uint32_t payload_bytes = 0;  // that follow
  std::uint32_t reply_bytes = 0;    // of payload that the request asks for
  // Before the reply: that the request asks for, kMostBenchmarkRest at most; that the server took, which is
  // as long as its processor was with others.
  std::uint32_t rest_ns = 0;
  // The client's port, which a call-back asks the server to connect to; in the reply 0 where nothing answered
  // there.
  std::uint32_t port = 0;
  std::uint32_t client = 0;  // the same on all connections of one; 0: of this connection alone

  // Whether it is one of this version, within the limits.
  bool is_valid() const {
    return magic == kBenchmarkMagic && version == kBenchmarkVersion &&
           payload_bytes <= kMostBenchmarkPayload && reply_bytes <= kMostBenchmarkPayload && port <= 0xFFFF;
  }
};
static_assert(sizeof(BenchmarkHeader) == 32, "sent as it lies in memory: little-endian, without holes");

}  // namespace rookery
