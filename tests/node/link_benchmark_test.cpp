#include "node/link_benchmark.hpp"

#include <gmock/gmock.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>
#include <zmq.hpp>

#include "models/base/error.hpp"
#include "node/packets.hpp"
#include "tests/node/captured_log.hpp"

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
class Stranger {
 public:
  explicit Stranger(const std::string& address) : socket_(context_, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::rcvtimeo, 10'000);
    socket_.set(zmq::sockopt::rcvhwm, 1);
    socket_.set(zmq::sockopt::rcvbuf, 1 << 16);
    socket_.connect("tcp://" + address);
  }
  void send(const std::string& header, std::optional<std::string> payload = "") {
    socket_.send(zmq::buffer(header), payload ? zmq::send_flags::sndmore : zmq::send_flags::none);
    if (payload) socket_.send(zmq::buffer(*payload), zmq::send_flags::none);
  }
  // Size of the next answer's payload, and its kind.
  std::pair<std::size_t, char> answer() {
    zmq::message_t header;
    zmq::message_t payload;
    if (!socket_.recv(header)) return {0, '-'};
    static_cast<void>(socket_.recv(payload));
    return {payload.size(), header.to_string().at(6)};
  }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
};

const std::string kRequest("RKBM\2\0\0\0", 8);

// Request number 1 for `bytes` back, after a rest.
std::string request(std::uint32_t bytes, std::string start = kRequest, std::uint32_t rest_ns = 0) {
  start += std::string("\1\0\0\0", 4);
  for (const std::uint32_t number : {bytes, rest_ns}) {
    for (int i = 0; i < 4; ++i) start += static_cast<char>(number >> (8 * i));
  }
  return start;
}

TEST(LinkBenchmark, MeasuresBothDirections) {
  const Served server;
  const LinkMeasure measure = measure_link(server.address(), {.seconds = 0.1});
  EXPECT_GT(measure.latency_ms, 0);
  EXPECT_GT(measure.to_mbps, 0);
  EXPECT_GT(measure.from_mbps, 0);
}

TEST(LinkBenchmark, KnowsWhatAProvidersThreadsAdd) {
  const HopTimes hops = measure_hops();
  EXPECT_GT(hops.provider, 0);
  EXPECT_GT(hops.benchmark, 0);
}

TEST(LinkBenchmark, NobodyThereIsNamedInTime) {
  try {
    measure_link("127.0.0.1:1", {.answer = milliseconds(100)});
    FAIL() << "nobody is there";
  } catch (const TransportError& error) {
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1:1: no answer within 0.1 s"));
  }
}

TEST(LinkBenchmark, WhatIsNoRequestIsDropped) {
  CapturedLog log;
  const Served server;
  Stranger stranger(server.address());
  stranger.send("");
  stranger.send(std::string(4096, 'x'));
  stranger.send(request(0), std::nullopt);     // no payload
  stranger.send(request(kMaxChunkBytes + 1));  // asks for too much
  stranger.send(request(0xFFFFFFFF));
  stranger.send(request(0, std::string("RKBM\1\0\0\0", 8)));  // another version
  stranger.send(request(0, std::string("RKBM\2\0\1\0", 8)));  // an answer
  stranger.send(request(0, std::string("ROOK\2\0\0\0", 8)));
  stranger.send(request(0, kRequest, 10'000'001));  // a rest of more than 10 ms
  stranger.send(request(100));
  EXPECT_EQ(stranger.answer(), std::pair(std::size_t{100}, '\1')) << "the only one that is answered";
  EXPECT_TRUE(log.has("no request of node_benchmark"));
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

// A frame beyond the limit ends the connection before memory is taken; others go on.
TEST(LinkBenchmark, OneMeasuresAtATime) {
  const Served server;
  Stranger large(server.address());
  large.send(request(0), std::string(4 * kMaxChunkBytes, 'x'));
  Stranger first(server.address());
  first.send(request(10));
  EXPECT_EQ(first.answer(), std::pair(std::size_t{10}, '\1'));
  Stranger second(server.address());
  second.send(request(10));
  EXPECT_EQ(second.answer(), std::pair(std::size_t{0}, '\2')) << "busy, and nothing is sent";
}

// Who asks and does not read is cut off, and the server goes on.
TEST(LinkBenchmark, WhoDoesNotReadTakesLittleMemory) {
  CapturedLog log;
  const Served server;
  Stranger asker(server.address());
  for (int i = 0; i < 400; ++i) asker.send(request(kMaxChunkBytes));
  EXPECT_TRUE(log.has("does not read what it asked for"));
  Stranger other(server.address());
  other.send(request(1));
  EXPECT_EQ(other.answer().second, '\1');
}

}  // namespace
}  // namespace rookery
