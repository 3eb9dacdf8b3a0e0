#include "node/benchmark/link_benchmark.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <future>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/process/stop_signals.hpp"
#include "node/benchmark/messages.hpp"
#include "node/benchmark/rest.hpp"
#include "node/sockets/address.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Requests of a connection that have no answer yet.
constexpr std::uint32_t kMostUnderWay = 16;
// A connection that has this much under way may be held back by its sockets' buffers, of some 2 MiB.
constexpr double kMuchUnderWay = 512 << 10;
constexpr std::size_t kConnections = 16;  // that measure together then
// Round trips until TCP has found out what the way carries.
constexpr double kRampTrips = 12;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// A connection to the server, whose every wait has a deadline and ends with a stop signal.
class Connection {
 public:
  explicit Connection(const std::string& address) : address_(address) {}
  ~Connection() { close(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Tries again until somebody listens there; false when nobody does in time.
  bool open(Clock::time_point deadline) {
    constexpr milliseconds kAgain{50};
    while (!try_open(deadline)) {
      if (Clock::now() + kAgain > deadline) return false;
      pause(kAgain);
    }
    return true;
  }

  // TransportError when it takes longer, or the connection ends.
  void send(std::span<const std::byte> bytes, Clock::time_point deadline) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent >= 0) {
        bytes = bytes.subspan(sent);
      } else if (!can_go_on(POLLOUT, deadline)) {
        throw TransportError(fmt::format("{}: the connection takes no message", address_));
      }
    }
  }

  // False when not all has come by then; TransportError when the connection ends.
  bool receive(std::span<std::byte> bytes, Clock::time_point deadline) {
    while (!bytes.empty()) {
      const ssize_t got = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
      if (got == 0)
        throw TransportError(fmt::format("{}: the other side has closed the connection", address_));
      if (got > 0) {
        bytes = bytes.subspan(got);
      } else if (!can_go_on(POLLIN, deadline)) {
        return false;
      }
    }
    return true;
  }

  // A wait that a stop signal ends.
  static void pause(milliseconds time) {
    ::poll(nullptr, 0, static_cast<int>(time.count()));
    throw_if_stopped();
  }

 private:
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

  bool try_open(Clock::time_point deadline) {
    const Address address = Address::parse(address_).reachable();
    const std::vector<std::string> found = resolve(address.host);
    if (found.empty())
      throw TransportError(
          fmt::format("{}: this machine cannot resolve the host name {}", address_, address.host));
    const SocketAddress where = socket_address(found.front(), address.port);
    close();
    descriptor_ = ::socket(where.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor_ < 0)
      throw TransportError(fmt::format("{}: no socket: {}", address_, std::strerror(errno)));
    const int on = 1;
    ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::connect(descriptor_, where.pointer(), where.size) == 0) return true;
    if (errno != EINPROGRESS || !wait_for(POLLOUT, deadline)) return false;
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &size);
    return error == 0;
  }

  // After a call that failed: whether it may be tried again.
  bool can_go_on(short event, Clock::time_point deadline) const {
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
      throw TransportError(fmt::format("{}: {}", address_, std::strerror(errno)));
    return wait_for(event, deadline);
  }

  bool wait_for(short event, Clock::time_point deadline) const {
    pollfd item{descriptor_, event, 0};
    while (true) {
      const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
      const int ready = left.count() > 0 ? ::poll(&item, 1, static_cast<int>(left.count())) : 0;
      throw_if_stopped();
      if (ready > 0) return true;
      if (ready == 0) return false;
    }
  }

  const std::string address_;
  int descriptor_ = -1;
};

// One peer's end of a measurement.
class Client {
 public:
  // `number`: the same for all that measure together.
  Client(const std::string& address, const LinkBenchmarkOptions& options,
         std::uint32_t number = std::random_device()() | 1U)
      : address_(address),
        options_(options),
        client_(number),
        connection_(address),
        scratch_(kMostBenchmarkPayload) {}

  LinkMeasure measure() {
    be_admitted();
    LinkMeasure measure;
    measure.latency_ms = 1e3 * hop_seconds(options_.seconds / 6);
    const double trip = 2e-3 * measure.latency_ms;
    measure.to_mbps = mbps(kMostBenchmarkPayload, 0, trip);
    measure.from_mbps = mbps(0, kMostBenchmarkPayload, trip);
    if (125e3 * trip * std::max(measure.to_mbps, measure.from_mbps) > kMuchUnderWay) {
      std::deque<Client> others;
      while (others.size() + 1 < kConnections) others.emplace_back(address_, options_, client_);
      for (auto& admitted : begun_on(others, [](Client& other) { other.be_admitted(); })) admitted.get();
      measure.to_mbps = std::max(measure.to_mbps, mbps_of_all(others, kMostBenchmarkPayload, 0, trip));
      measure.from_mbps = std::max(measure.from_mbps, mbps_of_all(others, 0, kMostBenchmarkPayload, trip));
    }
    if (options_.own_port != 0) measure.called_back = is_called_back();
    return measure;
  }

  // Is there a server, busy or not?
  bool is_answered() {
    const auto deadline = Clock::now() + options_.answer;
    if (!connection_.open(deadline)) return false;
    send(0, 0);
    return receive(deadline).has_value();
  }

 private:
  // What is done on all of them at the same time.
  template <typename Action>
  static std::vector<std::future<std::invoke_result_t<Action, Client&>>> begun_on(std::deque<Client>& clients,
                                                                                  Action action) {
    std::vector<std::future<std::invoke_result_t<Action, Client&>>> begun;
    for (Client& client : clients)
      begun.push_back(std::async(std::launch::async, [&client, action] { return action(client); }));
    return begun;
  }

  void be_admitted() {
    const auto begin = Clock::now();
    std::optional<BenchmarkHeader> answer;
    if (connection_.open(begin + options_.answer)) {
      send(0, 0);
      answer = receive(begin + options_.answer);
    }
    while (true) {
      const double waited = seconds_between(begin, Clock::now());
      if (!answer) {
        throw TransportError(fmt::format(
            "{}: no answer within {:.1f} s: does `node_benchmark --serve` run there?", address_, waited));
      }
      if (answer->kind == BenchmarkKind::kReply) return;
      if (Clock::now() - begin > options_.busy)
        throw TransportError(fmt::format("{}: busy with others for {:.0f} s", address_, waited));
      constexpr milliseconds kAgain{200};
      Connection::pause(kAgain);
      send(0, 0);
      answer = receive(Clock::now() + options_.answer);
    }
  }

  bool is_called_back() {
    const BenchmarkHeader header{
        .kind = BenchmarkKind::kCallBack, .number = ++number_, .port = options_.own_port, .client = client_};
    connection_.send(std::as_bytes(std::span(&header, 1)), patience());
    return wait_for_reply().port == options_.own_port;
  }

  // Half of what a message and its answer take between machines that have both been waiting.
  double hop_seconds(double limit) {
    constexpr std::size_t kLeast = 5;
    constexpr std::size_t kMost = 2000;
    std::vector<double> hops;
    const auto begin = Clock::now();
    while (hops.size() < kLeast || (hops.size() < kMost && seconds_between(begin, Clock::now()) < limit)) {
      rest(kRest);
      const auto sent = Clock::now();
      send(0, 0, kRest);
      const double rested = 1e-9 * wait_for_reply().rest_ns;
      hops.push_back(std::max(0.0, seconds_between(sent, Clock::now()) - rested) / 2);
    }
    return trimmed_mean(std::move(hops));
  }

  // Of this and the others at the same time.
  double mbps_of_all(std::deque<Client>& others, std::size_t bytes, std::size_t reply_bytes, double trip) {
    auto theirs = begun_on(others, [=](Client& other) { return other.answers(bytes, reply_bytes, trip); });
    std::vector<double> all = answers(bytes, reply_bytes, trip);
    for (auto& each : theirs) {
      const std::vector<double> of_other = each.get();
      all.insert(all.end(), of_other.begin(), of_other.end());
    }
    return mbps_of(std::move(all), bytes + reply_bytes, trip);
  }

  double mbps(std::size_t bytes, std::size_t reply_bytes, double trip) {
    return mbps_of(answers(bytes, reply_bytes, trip), bytes + reply_bytes, trip);
  }

  double ramp_seconds(double trip) const { return kRampTrips * trip; }
  double measured_seconds() const { return options_.seconds * 5 / 12; }

  // When answers came, in seconds. As many requests are under way as answers have come, up to a limit: slow
  // connections are not flooded.
  std::vector<double> answers(std::size_t bytes, std::size_t reply_bytes, double trip) {
    const double limit = ramp_seconds(trip) + measured_seconds();
    std::uint32_t allowed = 2;
    std::uint32_t under_way = 0;
    std::vector<double> times;
    const auto begin = Clock::now();
    do {
      while (under_way < allowed && seconds_between(begin, Clock::now()) < limit) {
        send(bytes, reply_bytes);
        ++under_way;
      }
      wait_for_reply();
      --under_way;
      allowed = std::min(allowed + 1, kMostUnderWay);
      times.push_back(seconds_between(begin, Clock::now()));
    } while (under_way > 0);
    return times;
  }

  // By the answers that came while requests were sent and TCP knew the way; where those are few, by all from
  // the first of them to the last.
  double mbps_of(std::vector<double> times, std::size_t bytes, double trip) const {
    constexpr std::ptrdiff_t kMany = 32;
    const double ramp = ramp_seconds(trip);
    std::ranges::sort(times);
    const auto first = std::ranges::lower_bound(times, ramp);
    const auto last = std::ranges::upper_bound(times, ramp + measured_seconds());
    const double megabits = 8e-6 * static_cast<double>(bytes);
    if (last - first >= kMany) return megabits * static_cast<double>(last - first) / measured_seconds();
    const auto from = std::min(first, times.end() - 2);  // there are two at least
    return megabits * static_cast<double>(times.end() - 1 - from) / (times.back() - *from);
  }

  Clock::time_point patience() const {
    constexpr int kTimes = 10;
    return Clock::now() + kTimes * options_.answer;
  }

  void send(std::size_t bytes, std::size_t reply_bytes, std::chrono::nanoseconds server_rest = {}) {
    const BenchmarkHeader header{.number = ++number_,
                                 .payload_bytes = static_cast<std::uint32_t>(bytes),
                                 .reply_bytes = static_cast<std::uint32_t>(reply_bytes),
                                 .rest_ns = static_cast<std::uint32_t>(server_rest.count()),
                                 .client = client_};
    connection_.send(std::as_bytes(std::span(&header, 1)), patience());
    connection_.send(std::span(scratch_).first(bytes), patience());
  }

  // The next message, whose payload is left unread in scratch_; nothing when none comes in time.
  std::optional<BenchmarkHeader> receive(Clock::time_point deadline) {
    BenchmarkHeader header;
    if (!connection_.receive(std::as_writable_bytes(std::span(&header, 1)), deadline)) return std::nullopt;
    const bool is_answer = header.kind == BenchmarkKind::kReply || header.kind == BenchmarkKind::kBusy;
    if (!header.is_valid() || !is_answer)
      throw TransportError(
          fmt::format("{}: what answers there is no node_benchmark of this version", address_));
    if (!connection_.receive(std::span(scratch_).first(header.payload_bytes), deadline)) return std::nullopt;
    return header;
  }

  BenchmarkHeader wait_for_reply() {
    const auto begin = Clock::now();
    const std::optional<BenchmarkHeader> answer = receive(patience());
    if (answer && answer->kind == BenchmarkKind::kReply) return *answer;
    throw TransportError(fmt::format("{}: {}", address_,
                                     answer
                                         ? "it has begun to measure with another node"
                                         : fmt::format("silent for {:.1f} s in the middle of a measurement",
                                                       seconds_between(begin, Clock::now()))));
  }

  const std::string address_;
  const LinkBenchmarkOptions options_;
  const std::uint32_t client_;
  Connection connection_;
  std::vector<std::byte> scratch_;
  std::uint32_t number_ = 0;
};

}  // namespace

LinkMeasure measure_link(const std::string& address, const LinkBenchmarkOptions& options) {
  return Client(address, options).measure();
}

bool answers(const std::string& address, milliseconds limit) {
  return Client(address, {.answer = limit}).is_answered();
}

}  // namespace rookery
