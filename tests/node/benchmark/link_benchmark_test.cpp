#include "node/benchmark/link_benchmark.hpp"

#include <gmock/gmock.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "node/benchmark/link_benchmark_server.hpp"
#include "node/benchmark/messages.hpp"
#include "node/sockets/listener.hpp"
#include "tests/node/transport/raw_stranger.hpp"
#include "tests/support/captured_log.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// A server in a thread of its own.
class Served {
 public:
  Served() : thread_([this] { server_.serve(stop_); }) {}
  ~Served() {
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(stop_, &one, sizeof one), ssize_t{sizeof one});
    thread_.join();
    ::close(stop_);
  }
  std::string address() const { return server_.address(); }

 private:
  int stop_ = ::eventfd(0, EFD_CLOEXEC);
  LinkBenchmarkServer server_{"127.0.0.1:0"};
  std::thread thread_;
};

// Somebody who sends what he likes.
class BenchmarkStranger : public RawStranger {
 public:
  using RawStranger::RawStranger;
  // Of the next answer, payload and all; nothing once the connection is closed.
  std::optional<BenchmarkHeader> answer() {
    BenchmarkHeader header;
    if (!receive(&header, sizeof header)) return std::nullopt;
    std::vector<char> payload(header.payload_bytes);
    // Asked for nothing, recv() would wait for more.
    if (!payload.empty() && !receive(payload.data(), payload.size())) return std::nullopt;
    return header;
  }
};

std::string bytes_of(const BenchmarkHeader& header) {
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

std::string request(std::uint32_t reply_bytes) {
  return bytes_of({.number = 1, .reply_bytes = reply_bytes});
}

TEST(LinkBenchmark, MeasuresBothDirections) {
  const Served server;
  const LinkMeasure measure = measure_link(server.address(), {.seconds = 0.1});
  EXPECT_GT(measure.latency_ms, 0);
  EXPECT_GT(measure.to_mbps, 0);
  EXPECT_GT(measure.from_mbps, 0);
}

std::uint16_t port_of(const std::string& address) {
  return Address::parse(address).port;
}

TEST(LinkBenchmark, TheOtherTriesToConnectBack) {
  const Served server;
  EXPECT_EQ(measure_link(server.address(), {.seconds = 0.1}).called_back, std::nullopt) << "not asked for";
  const Served own;
  EXPECT_EQ(measure_link(server.address(), {.seconds = 0.1, .own_port = port_of(own.address())}).called_back,
            true);
  EXPECT_EQ(measure_link(server.address(), {.seconds = 0.1, .own_port = 1}).called_back, false)
      << "nobody is there";
}

// A router may answer at its own address, with what is not this machine.
TEST(LinkBenchmark, SomethingElseThatAnswersIsNoConnectionBack) {
  const Served server;
  const Listener listener("it", Address::parse("127.0.0.1:0"), "");
  std::jthread answering([&] {
    int other = -1;
    while ((other = ::accept(listener.descriptor(), nullptr, nullptr)) < 0) std::this_thread::yield();
    const std::string page(100, 'x');
    EXPECT_EQ(::send(other, page.data(), page.size(), MSG_NOSIGNAL), static_cast<ssize_t>(page.size()));
    ::shutdown(other, SHUT_WR);
    char byte = 0;
    while (::recv(other, &byte, 1, 0) > 0) continue;
    ::close(other);
  });
  EXPECT_EQ(measure_link(server.address(), {.seconds = 0.1, .own_port = listener.address().port}).called_back,
            false);
}

TEST(LinkBenchmark, WhetherANodeBenchmarkAnswersIsToldInTime) {
  EXPECT_FALSE(answers("127.0.0.1:1", milliseconds(100)));
  const Served server;
  EXPECT_TRUE(answers(server.address(), milliseconds(3'000)));
  BenchmarkStranger measured(server.address());
  measured.send(request(0));
  ASSERT_TRUE(measured.answer());
  EXPECT_TRUE(answers(server.address(), milliseconds(3'000))) << "it is busy, but there";
}

// Who is not measured with has nobody connect for him.
TEST(LinkBenchmark, WhoHasToWaitIsNotCalledBack) {
  const Served server, own;
  BenchmarkStranger first(server.address());
  first.send(request(0));
  ASSERT_TRUE(first.answer());
  BenchmarkStranger second(server.address());
  second.send(bytes_of({.kind = BenchmarkKind::kCallBack, .port = port_of(own.address())}));
  const auto answer = second.answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->kind, BenchmarkKind::kBusy);
  EXPECT_EQ(answer->port, 0U);
}

TEST(LinkBenchmark, KnowsWhatAProviderAddsToTcp) {
  const ProviderTransport transport = measure_provider_transport();
  EXPECT_GE(transport.latency_ms, 0);
  EXPECT_GT(transport.mbps, 0);
  EXPECT_GT(transport.processor_seconds_per_byte, 0);
  const LinkMeasure seen = transport.over({.latency_ms = 7, .to_mbps = 1e-3, .from_mbps = 1e12});
  EXPECT_EQ(seen.latency_ms, 7 + transport.latency_ms);
  EXPECT_EQ(seen.to_mbps, 1e-3);
  EXPECT_EQ(seen.from_mbps, transport.mbps);
}

TEST(LinkBenchmark, KnowsWhatProvidersOnOneMachineHave) {
  const std::optional<ProviderTransport> transport = measure_local_transport();
  if (!transport) GTEST_SKIP() << "the kernel does not let processes read each other's memory";
  EXPECT_GT(transport->latency_ms, 0);
  EXPECT_GT(transport->mbps, 0);
  EXPECT_GT(transport->processor_seconds_per_byte, 0);
  const LinkMeasure seen =
      transport->over({.latency_ms = 7, .to_mbps = 1e-3, .from_mbps = 1e12, .called_back = false});
  EXPECT_EQ(seen.latency_ms, transport->latency_ms);
  EXPECT_EQ(seen.to_mbps, transport->mbps);
  EXPECT_EQ(seen.from_mbps, transport->mbps);
  EXPECT_EQ(seen.called_back, false);
}

TEST(LinkBenchmark, NobodyThereIsNamedInTime) {
  try {
    measure_link("127.0.0.1:1", {.answer = milliseconds(100)});
    FAIL() << "nobody is there";
  } catch (const TransportError& error) {
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1:1: no answer within 0.1 s"));
  }
}

TEST(LinkBenchmark, WhatIsNoRequestEndsTheConnection) {
  CapturedLog log;
  const Served server;
  for (const BenchmarkHeader& header :
       {BenchmarkHeader{.magic = {'R', 'O', 'O', 'K'}}, BenchmarkHeader{.version = 2},
        BenchmarkHeader{.kind = BenchmarkKind::kReply},
        BenchmarkHeader{.kind = static_cast<BenchmarkKind>(7)}, BenchmarkHeader{.version = 3},
        BenchmarkHeader{.payload_bytes = kMostBenchmarkPayload + 1},
        BenchmarkHeader{.reply_bytes = kMostBenchmarkPayload + 1}, BenchmarkHeader{.reply_bytes = 0xFFFFFFFF},
        BenchmarkHeader{.rest_ns = 10'000'001}, BenchmarkHeader{.port = 65'536},
        BenchmarkHeader{.kind = BenchmarkKind::kCallBack},
        BenchmarkHeader{.kind = BenchmarkKind::kCallBack, .payload_bytes = 1, .port = 80}}) {
    BenchmarkStranger stranger(server.address());
    stranger.send(bytes_of(header));
    EXPECT_FALSE(stranger.answer());
  }
  EXPECT_TRUE(log.has("disconnected 127.0.0.1: that is no request of node_benchmark"));
  EXPECT_TRUE(log.has("a node_benchmark of another version"));
  BenchmarkStranger good(server.address());
  good.send(request(100));
  ASSERT_TRUE(good.answer());
}

TEST(LinkBenchmark, SomethingElseThatAnswersIsNamed) {
  const Listener listener("it", Address::parse("127.0.0.1:0"), "");
  std::jthread answering([&] {
    int other = -1;
    while ((other = ::accept(listener.descriptor(), nullptr, nullptr)) < 0) std::this_thread::yield();
    const std::string page(100, 'x');
    EXPECT_EQ(::send(other, page.data(), page.size(), MSG_NOSIGNAL), static_cast<ssize_t>(page.size()));
    ::shutdown(other, SHUT_WR);
    char byte = 0;
    while (::recv(other, &byte, 1, 0) > 0) continue;
    ::close(other);
  });
  try {
    measure_link(listener.address().to_string());
    FAIL() << "that was no answer";
  } catch (const TransportError& error) {
    EXPECT_THAT(error.what(), HasSubstr("is no node_benchmark of this version"));
  }
}

// Its processor may have been with others.
TEST(LinkBenchmark, AServerMayRestForLongerThanItWasAsked) {
  const Listener listener("it", Address::parse("127.0.0.1:0"), "");
  const std::jthread answering([&] {
    int client = -1;
    while ((client = ::accept(listener.descriptor(), nullptr, nullptr)) < 0) std::this_thread::yield();
    BenchmarkHeader header;
    std::vector<char> payload(kMostBenchmarkPayload);
    const auto has_received = [&](void* to, std::size_t bytes) {
      return bytes == 0 || ::recv(client, to, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
    };
    while (has_received(&header, sizeof header) && has_received(payload.data(), header.payload_bytes)) {
      header.kind = BenchmarkKind::kReply;
      header.payload_bytes = std::exchange(header.reply_bytes, 0);
      header.rest_ns = 4'000'000'000;
      ::send(client, &header, sizeof header, MSG_NOSIGNAL);
      ::send(client, payload.data(), header.payload_bytes, MSG_NOSIGNAL);
    }
    ::close(client);
  });
  const LinkMeasure link = measure_link(listener.address().to_string(), {.seconds = 0.1});
  EXPECT_EQ(link.latency_ms, 0) << "but for rests";
  EXPECT_GT(link.to_mbps, 0);
}

TEST(LinkBenchmark, ATakenPortSaysHowToServeAtAnother) {
  const Served server;
  try {
    const LinkBenchmarkServer second(server.address());
    FAIL() << "the port was given twice";
  } catch (const TransportError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("in use by process"), HasSubstr("serve at another port"),
                                    Not(HasSubstr("clusterize"))));
  }
}

TEST(LinkBenchmark, OneMeasuresAtATime) {
  const Served server;
  BenchmarkStranger first(server.address());
  first.send(request(10));
  EXPECT_EQ(first.answer()->payload_bytes, 10U);
  BenchmarkStranger second(server.address());
  second.send(request(10));
  const auto answer = second.answer();
  EXPECT_EQ(answer->kind, BenchmarkKind::kBusy);
  EXPECT_EQ(answer->payload_bytes, 0U) << "busy, and nothing is sent";
}

TEST(LinkBenchmark, SeveralConnectionsOfOneClientMeasureTogether) {
  const Served server;
  const auto ask = [&](BenchmarkStranger& from, std::uint32_t client) {
    from.send(bytes_of({.number = 1, .reply_bytes = 10, .client = client}));
    return from.answer()->kind;
  };
  auto first = std::make_unique<BenchmarkStranger>(server.address());
  BenchmarkStranger second(server.address()), other(server.address());
  EXPECT_EQ(ask(*first, 7), BenchmarkKind::kReply);
  EXPECT_EQ(ask(second, 7), BenchmarkKind::kReply);
  EXPECT_EQ(ask(other, 8), BenchmarkKind::kBusy);
  first.reset();  // the client goes on with what it has
  EXPECT_EQ(ask(second, 7), BenchmarkKind::kReply);
  EXPECT_EQ(ask(other, 8), BenchmarkKind::kBusy);
}

// Who asks and does not read is not read either: the server holds one header of his, and others are served.
TEST(LinkBenchmark, WhoDoesNotReadTakesNoMemory) {
  const Served server;
  BenchmarkStranger reader(server.address());
  reader.send(request(1));
  ASSERT_TRUE(reader.answer());
  std::vector<std::unique_ptr<BenchmarkStranger>> askers;
  for (int i = 0; i < 40; ++i) {
    askers.push_back(std::make_unique<BenchmarkStranger>(server.address()));
    for (int j = 0; j < 400; ++j) askers.back()->send(request(kMostBenchmarkPayload));
  }
  reader.send(request(kMostBenchmarkPayload));
  EXPECT_EQ(reader.answer()->kind, BenchmarkKind::kReply);
}

// Endless payloads go to memory that all connections share.
TEST(LinkBenchmark, AFloodTakesNoMemory) {
  const Served server;
  const std::int64_t before = resident_bytes();
  const std::string payload =
      bytes_of({.payload_bytes = kMostBenchmarkPayload}) + std::string(kMostBenchmarkPayload, 'x');
  BenchmarkStranger polite(server.address());
  for (int i = 0; i < 400; ++i) ASSERT_TRUE(polite.send(payload));
  const std::string nonsense(1 << 16, '\1');
  for (int i = 0; i < 20; ++i) {
    BenchmarkStranger rude(server.address());
    while (rude.send(nonsense)) continue;
  }
  EXPECT_LT(resident_bytes() - before, 16'000'000);
  BenchmarkStranger other(server.address());
  other.send(request(0));
  EXPECT_TRUE(other.answer());
}

}  // namespace
}  // namespace rookery
