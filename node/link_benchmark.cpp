#include "node/link_benchmark.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "models/base/error.hpp"
#include "models/base/program.hpp"
#include "models/runtime/machine_speed.hpp"
#include "node/address.hpp"
#include "node/packets.hpp"
#include "node/router.hpp"
#include "node/stream.hpp"
#include "node/warning_limiter.hpp"
#include "node/zmq_link.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;

constexpr std::array<char, 4> kMagic = {'R', 'K', 'B', 'M'};
constexpr std::uint16_t kVersion = 2;
// Requests of a client that have no answer yet: half of what waits for a connection (router.cpp), since
// ZeroMQ counts what has left a queue by halves of it.
constexpr std::uint32_t kMostUnderWay = 16;
constexpr std::size_t kMostDeaf = 64;
// Before each message whose time is taken, in both directions. A stage waits for its messages, too, and a
// processor that has gone to sleep takes its time to wake.
constexpr milliseconds kRest{1};
constexpr milliseconds kMostRest{10};  // that a request may ask for

enum class Kind : std::uint16_t { kRequest = 0, kReply = 1, kBusy = 2 };

struct Header {
  std::array<char, 4> magic = kMagic;
  std::uint16_t version = kVersion;
  Kind kind = Kind::kRequest;
  std::uint32_t number = 0;       // a reply has its request's
  std::uint32_t reply_bytes = 0;  // that the request asks for
  std::uint32_t rest_ns = 0;      // before the reply: that the request asks for, that the server took
};
static_assert(sizeof(Header) == 20, "sent as it lies in memory: little-endian, without holes");

// Nothing when it is no header of ours.
std::optional<Header> header_of(const zmq::message_t& frame) {
  Header header;
  if (frame.size() != sizeof header) return std::nullopt;
  std::memcpy(&header, frame.data(), sizeof header);
  if (header.magic != kMagic || header.version != kVersion || header.reply_bytes > kMaxChunkBytes)
    return std::nullopt;
  return header;
}

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// How long that was.
std::chrono::nanoseconds rest(std::chrono::nanoseconds time) {
  const auto begin = Clock::now();
  std::this_thread::sleep_for(time);
  return Clock::now() - begin;
}

bool poll_one(void* socket, milliseconds wait) {
  zmq::pollitem_t item{socket, 0, ZMQ_POLLIN, 0};
  try {
    return zmq::poll(&item, 1, wait) > 0;
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) throw;
  }
  throw_if_stopped();
  return false;
}

// The mean of all but the slowest fiftieth. The steps of a run take the mean of what their messages take,
// which is more than the median; a lost packet is another matter.
double trimmed_mean(std::vector<double> values) {
  std::ranges::sort(values);
  values.resize(values.size() - values.size() / 50);
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

struct LinkBenchmarkServer::Impl {
  explicit Impl(const std::string& address)
      : router(context, "node_benchmark", Address::parse(address),
               "serve at another port, and give it to this machine in node_configs.json"),
        bytes(kMaxChunkBytes) {
    router.socket().set(zmq::sockopt::router_mandatory, true);  // a full queue is told
  }

  // Whether this connection may be measured with now.
  bool admits(const std::string& connection, Clock::time_point now) {
    constexpr std::chrono::seconds kLongest{60};  // of a peer's measurements in a row
    constexpr std::chrono::seconds kSilent{5};    // that ends them
    const bool over = now - begun > kLongest;
    if (now - heard > kSilent || (over && connection != current)) {
      current = connection;
      begun = now;
    } else if (over || connection != current) {
      return false;
    }
    heard = now;
    return true;
  }

  void answer(const Received& received) {
    const auto now = Clock::now();
    const std::optional<Header> request = header_of(received.header);
    if (received.frames != 2 || !request || request->kind != Kind::kRequest ||
        std::chrono::nanoseconds(request->rest_ns) > kMostRest) {
      warnings.warn("dropped a message that is no request of node_benchmark", now);
      return;
    }
    if (deaf.contains(received.connection) || deaf.size() > kMostDeaf) return;
    Header reply = *request;
    const bool admitted = admits(received.connection, now);
    reply.kind = admitted ? Kind::kReply : Kind::kBusy;
    if (admitted && reply.rest_ns > 0)
      reply.rest_ns = static_cast<std::uint32_t>(rest(std::chrono::nanoseconds(reply.rest_ns)).count());
    const std::size_t size = admitted ? request->reply_bytes : 0;
    send(received.connection, reply, size);
  }

  // ZeroMQ hears late of what has left a queue, so that one that seems full is asked again. A peer that is
  // gone, or does not read what it asked for, loses its answer, and has no more.
  void send(const std::string& connection, const Header& reply, std::size_t size) {
    constexpr auto kFlags = zmq::send_flags::dontwait;
    constexpr milliseconds kPatience{50};
    constexpr milliseconds kAgain{1};
    zmq::socket_ref socket = router.socket();
    const auto deadline = Clock::now() + kPatience;
    try {
      while (!socket.send(zmq::buffer(connection), kFlags | zmq::send_flags::sndmore)) {
        if (Clock::now() > deadline) {
          warnings.warn("a peer does not read what it asked for: it gets nothing more", Clock::now());
          deaf.insert(connection);
          current.clear();
          heard = {};
          return;
        }
        std::this_thread::sleep_for(kAgain);
      }
      if (!socket.send(zmq::buffer(&reply, sizeof reply), kFlags | zmq::send_flags::sndmore)) return;
      static_cast<void>(socket.send(zmq::buffer(bytes.data(), size), kFlags));
    } catch (const zmq::error_t& error) {
      if (error.num() != EHOSTUNREACH) throw;
    }
  }

  zmq::context_t context{1};
  Router router;
  std::vector<char> bytes;
  WarningLimiter warnings;
  std::string current;         // connection that is measured with
  std::set<std::string> deaf;  // whose queues are full, at 8 MiB each
  Clock::time_point begun{}, heard{};
};

LinkBenchmarkServer::LinkBenchmarkServer(const std::string& address)
    : impl_(std::make_unique<Impl>(address)) {}
LinkBenchmarkServer::~LinkBenchmarkServer() = default;

std::string LinkBenchmarkServer::address() const {
  return impl_->router.address().to_string();
}

void LinkBenchmarkServer::serve(int stop_descriptor) {
  std::array<zmq::pollitem_t, 2> items{
      {{impl_->router.socket().handle(), 0, ZMQ_POLLIN, 0}, {nullptr, stop_descriptor, ZMQ_POLLIN, 0}}};
  Received received;
  while (true) {
    try {
      zmq::poll(items, milliseconds(-1));
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;
      continue;
    }
    if ((items[1].revents & ZMQ_POLLIN) != 0) return;
    while (impl_->router.receive(received)) impl_->answer(received);
  }
}

namespace {

// One peer's end of a measurement.
class Client {
 public:
  Client(const std::string& address, const LinkBenchmarkOptions& options)
      : address_(address),
        options_(options),
        socket_(context_, zmq::socket_type::dealer),
        bytes_(kMaxChunkBytes) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::sndhwm, 0);
    socket_.set(zmq::sockopt::rcvhwm, 0);
    socket_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(kMaxChunkBytes));
    socket_.connect("tcp://" + Address::parse(address).reachable().to_string());
  }

  LinkMeasure measure() {
    be_admitted();
    LinkMeasure measure;
    measure.latency_ms = 1e3 * hop_seconds(options_.seconds / 6);
    const double processor_begin = processor_seconds();
    measure.to_mbps = mbps(kMaxChunkBytes, 0);
    measure.from_mbps = mbps(0, kMaxChunkBytes);
    measure.processor_seconds_per_byte = (processor_seconds() - processor_begin) / bytes_moved_;
    return measure;
  }

  // Half of what a message and its answer take between machines that have both been waiting.
  double hop_seconds(double seconds) {
    constexpr std::size_t kLeast = 5;
    constexpr std::size_t kMost = 2000;
    std::vector<double> hops;
    const auto begin = Clock::now();
    while (hops.size() < kLeast || (hops.size() < kMost && seconds_between(begin, Clock::now()) < seconds)) {
      rest(kRest);
      const auto sent = Clock::now();
      send(0, 0, kRest);
      const double rested = 1e-9 * wait_for_reply().rest_ns;
      hops.push_back(std::max(0.0, seconds_between(sent, Clock::now()) - rested) / 2);
    }
    return trimmed_mean(std::move(hops));
  }

  void be_admitted() {
    const auto begin = Clock::now();
    milliseconds patience = options_.answer;
    while (true) {
      send(0, 0);
      const std::optional<Header> answer = receive(patience);
      if (answer && answer->kind == Kind::kReply) return;
      const auto waited = Clock::now() - begin;
      if (!answer) {
        throw TransportError(
            fmt::format("{}: no answer within {:.1f} s: does `node_benchmark --serve` run there?", address_,
                        seconds_between(begin, Clock::now())));
      }
      if (waited > options_.busy) {
        throw TransportError(
            fmt::format("{}: busy with others for {:.0f} s", address_, seconds_between(begin, Clock::now())));
      }
      constexpr milliseconds kAgain{200};
      poll_one(socket_.handle(), kAgain);  // nothing comes: a wait that signals end
    }
  }

 private:
  void send(std::size_t bytes, std::size_t reply_bytes, std::chrono::nanoseconds server_rest = {}) {
    const Header header{.number = ++number_,
                        .reply_bytes = static_cast<std::uint32_t>(reply_bytes),
                        .rest_ns = static_cast<std::uint32_t>(server_rest.count())};
    constexpr auto kFlags = zmq::send_flags::dontwait;
    if (!socket_.send(zmq::buffer(&header, sizeof header), kFlags | zmq::send_flags::sndmore) ||
        !socket_.send(zmq::buffer(bytes_.data(), bytes), kFlags))
      throw TransportError(fmt::format("{}: the connection takes no message", address_));
  }

  // Of the next message that is one of the server's; nothing when none comes in time.
  std::optional<Header> receive(milliseconds wait) {
    const auto deadline = Clock::now() + wait;
    while (true) {
      const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
      if (left.count() <= 0) return std::nullopt;
      if (!poll_one(socket_.handle(), left)) continue;
      zmq::message_t header;
      zmq::message_t part;
      if (!socket_.recv(header, zmq::recv_flags::dontwait)) continue;
      bool more = header.more();
      while (more && socket_.recv(part, zmq::recv_flags::dontwait)) more = part.more();
      const std::optional<Header> found = header_of(header);
      if (found && found->kind != Kind::kRequest) return found;
    }
  }

  Header wait_for_reply() {
    constexpr int kPatience = 10;
    const auto sent = Clock::now();
    const std::optional<Header> answer = receive(kPatience * options_.answer);
    if (answer && answer->kind == Kind::kReply) return *answer;
    throw TransportError(fmt::format("{}: {}", address_,
                                     answer
                                         ? "it has begun to measure with another node"
                                         : fmt::format("silent for {:.1f} s in the middle of a measurement",
                                                       seconds_between(sent, Clock::now()))));
  }

  // As many requests under way as answers have come, up to a limit: slow connections are not flooded.
  double mbps(std::size_t bytes, std::size_t reply_bytes) {
    const double seconds = options_.seconds * 5 / 12;
    std::uint32_t allowed = 2;
    std::uint32_t under_way = 0;
    std::int64_t answered = 0;  // after the first, which the connection's latency is in
    Clock::time_point first{};
    const auto begin = Clock::now();
    do {
      while (under_way < allowed && seconds_between(begin, Clock::now()) < seconds) {
        send(bytes, reply_bytes);
        ++under_way;
      }
      wait_for_reply();
      --under_way;
      allowed = std::min(allowed + 1, kMostUnderWay);
      if (first == Clock::time_point{}) {
        first = Clock::now();
      } else {
        ++answered;
      }
    } while (under_way > 0);
    bytes_moved_ += static_cast<double>(bytes + reply_bytes) * static_cast<double>(answered + 1);
    const double bits = 8.0 * static_cast<double>(bytes + reply_bytes);
    return bits * static_cast<double>(answered) / seconds_between(first, Clock::now()) * 1e-6;
  }

  const std::string address_;
  const LinkBenchmarkOptions options_;
  zmq::context_t context_{1};
  zmq::socket_t socket_;
  double bytes_moved_ = 0;  // by mbps()
  std::vector<char> bytes_;
  std::uint32_t number_ = 0;
};

// Two providers' links in this process.
class LinkPair {
 public:
  LinkPair() {
    for (int stage = 0; stage < 2; ++stage) {
      ZmqLinkOptions options;
      options.node = name(stage);
      options.stage = stage;
      options.address = "127.0.0.1:0";
      options.plan_id = "node_benchmark";
      options.deadline = options.wait_for_peers = milliseconds(10'000);
      links_.push_back(std::make_unique<ZmqLink>(options));
    }
  }

  // As in a step: an activation, labels and sample ids one way, a gradient back.
  double hop_seconds() {
    const std::jthread answering([this] { answer(); });
    join(0);
    std::vector<double> hops;
    for (int round = 0; round < kRounds; ++round) {
      rest(kRest);
      const auto begin = Clock::now();
      for (const char* value : kThere) send_number(*links_[0], 1, {.step = round, .edge = value}, 0);
      const double rested = receive_number(*links_[0], 1, {.step = round, .edge = kBack});
      hops.push_back((seconds_between(begin, Clock::now()) - rested) / 2);
    }
    links_[0]->leave();
    return trimmed_mean(std::move(hops));
  }

 private:
  static constexpr int kRounds = 300;
  static constexpr std::array<const char*, 3> kThere{"activation", "labels", "sample_ids"};
  static constexpr const char* kBack = "gradient";

  static std::string name(int stage) { return fmt::format("node_{}", stage); }

  void join(int stage) {
    const int other = 1 - stage;
    links_.at(stage)->join({{other, name(other), links_.at(other)->address()}});
  }

  // Tells how long it rested.
  void answer() {
    try {
      join(1);
      for (int round = 0; round < kRounds; ++round) {
        for (const char* value : kThere) receive_number(*links_[1], 0, {.step = round, .edge = value});
        send_number(*links_[1], 0, {.step = round, .edge = kBack},
                    std::chrono::duration<double>(rest(kRest)).count());
      }
      links_[1]->leave();
    } catch (const std::exception&) {
      links_[1].reset();  // the other side finds it lost
    }
  }

  std::vector<std::unique_ptr<ZmqLink>> links_;
};

struct StopWriter {
  int descriptor;
  ~StopWriter() {
    const std::uint64_t one = 1;
    static_cast<void>(::write(descriptor, &one, sizeof one));
  }
};

double benchmark_hop_seconds() {
  LinkBenchmarkServer server("127.0.0.1:0");
  const int stop = ::eventfd(0, EFD_CLOEXEC);
  double hop = 0;
  {
    std::jthread serving([&] { server.serve(stop); });
    const StopWriter end{stop};  // before the thread is waited for
    Client client(server.address(), {});
    client.be_admitted();
    hop = client.hop_seconds(0.2);
  }
  ::close(stop);
  return hop;
}

}  // namespace

LinkMeasure measure_link(const std::string& address, const LinkBenchmarkOptions& options) {
  return Client(address, options).measure();
}

HopTimes measure_hops() {
  return {.provider = LinkPair().hop_seconds(), .benchmark = benchmark_hop_seconds()};
}

}  // namespace rookery
