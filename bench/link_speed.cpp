// Tensors between two processes of this machine, from the memory of one to the memory of the other, against a
// plain TCP socket with the same bytes: in alternation, results first.
//
//   build/bin/link_speed [--seconds 0.5] [--rounds 9] [--sockets]
//
// With --sockets tensors go as they do to another machine; without, as nodes of one machine do it.
// A stream: tensors of 1, 16 and 100 MiB one after the other, and at the end an answer. A round trip: a
// tensor of 1 or 64 KiB there and back, also after both have rested for a millisecond. Medians; exits with 1
// where a stream has less than 0.9 of the socket's bytes a second, or a round trip takes more than 1.4 times
// as long.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "bench/local_endpoints.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/process/program.hpp"
#include "tests/support/free_ports.hpp"

namespace rookery {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using Bytes = std::span<std::byte>;

constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kMost = 100 * kMiB;
constexpr double kLeastOfStream = 0.9, kMostOfRoundTrip = 1.4;
constexpr int kBegun = 2;  // tensors of a stream at once: a stage's next one is ready when one is sent

// One process's end of a way to the other.
class End {
 public:
  virtual ~End() = default;
  // All of `count` tensors of so many bytes, each of or into the same memory.
  virtual void send(Bytes bytes, int count) = 0;
  virtual void receive(Bytes bytes, int count) = 0;
};

class Socket : public End {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {
    const int on = 1;
    setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  void send(Bytes bytes, int count) override {
    for (int i = 0; i < count; ++i) all_of(bytes, ::write);
  }
  void receive(Bytes bytes, int count) override {
    for (int i = 0; i < count; ++i) all_of(bytes, ::read);
  }

 private:
  template <typename Call>
  void all_of(Bytes bytes, Call call) const {
    while (!bytes.empty()) {
      const ssize_t done = call(descriptor_, bytes.data(), bytes.size());
      if (done <= 0) std::exit(1);
      bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
  }
  const int descriptor_;
};

// Both ends of a TCP connection.
std::pair<int, int> connection() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener, any, size) != 0 || listen(listener, 1) != 0 || getsockname(listener, any, &size) != 0)
    std::exit(1);
  const int one = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(one, any, size) != 0) std::exit(1);
  return {one, accept(listener, nullptr, nullptr)};
}

class Ours : public End {
 public:
  Ours(int rank, const std::vector<int>& ports, bool shares_memory)
      : rank_(rank), endpoint_(options_of(rank, ports, shares_memory)) {
    endpoint_.start({local_peer(ports, 1 - rank)});
    GroupOptions options;
    options.members = {local_node(0), local_node(1)};
    options.max_message_bytes = kMost;
    options.send_budget = options.receive_budget = kBegun * message_cost(kMost, kMaxChunkBytes);
    options.buffers = BufferPool(std::vector<std::uint64_t>(2 * kBegun, kMost));
    link_ = endpoint_.open(std::move(options));
    link_->join();
  }
  ~Ours() override { link_->leave(); }

  void send(Bytes bytes, int count) override {
    each(
        count,
        [&] {
          return link_->begin_send(1 - rank_, key(sent_), ConstTensorView{type(bytes), bytes.data()});
        },
        sent_);
  }
  void receive(Bytes bytes, int count) override {
    each(
        count,
        [&] {
          return link_->begin_receive(1 - rank_, key(received_), TensorView{type(bytes), bytes.data()});
        },
        received_);
  }

 private:
  static EndpointOptions options_of(int rank, const std::vector<int>& ports, bool shares_memory) {
    EndpointOptions options = local_endpoint(ports, rank);
    options.shares_memory = shares_memory;
    return options;
  }
  template <typename Begin>
  static void each(int count, Begin begin, std::int64_t& number) {
    std::deque<std::unique_ptr<PendingTransfer>> begun;
    for (int i = 0; i < count; ++i, ++number) {
      if (std::ssize(begun) == kBegun) {
        begun.front()->wait();
        begun.pop_front();
      }
      begun.push_back(begin());
    }
    for (const auto& transfer : begun) transfer->wait();
  }
  static MessageKey key(std::int64_t number) { return {.step = number, .edge = "x"}; }
  static TensorType type(Bytes bytes) { return {DType::kU8, {std::ssize(bytes)}}; }

  const int rank_;
  Endpoint endpoint_;
  std::unique_ptr<ZmqLink> link_;
  std::int64_t sent_ = 0, received_ = 0;
};

// One of the two processes; both call the same functions in the same order.
class Side {
 public:
  Side(int rank, End& end) : rank_(rank), end_(end), memory_(kMost) {}

  double stream(std::uint64_t bytes, int count) {
    const auto begin = Clock::now();
    if (rank_ == 0) {
      end_.send(first(bytes), count);
      end_.receive(first(1), 1);
    } else {
      end_.receive(first(bytes), count);
      end_.send(first(1), 1);
    }
    return Seconds(Clock::now() - begin).count();
  }

  // The median of so many round trips.
  double round_trip(std::uint64_t bytes, int count, bool rests) {
    std::vector<double> seconds;
    for (int i = 0; i < count; ++i) {
      if (rests) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const auto begin = Clock::now();
      if (rank_ == 0) end_.send(first(bytes), 1);
      end_.receive(first(bytes), 1);
      if (rank_ == 1) end_.send(first(bytes), 1);
      seconds.push_back(Seconds(Clock::now() - begin).count());
    }
    std::ranges::nth_element(seconds, seconds.begin() + count / 2);
    return seconds[static_cast<std::size_t>(count) / 2];
  }

  // What rank 0 has in its memory comes to that of rank 1.
  void check(std::uint64_t bytes) {
    std::vector<std::byte> expected(bytes);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<std::byte>(i * 31 + i / 251);
    std::ranges::fill(first(bytes), std::byte{});
    if (rank_ == 0) std::ranges::copy(expected, memory_.begin());
    stream(bytes, 1);
    if (rank_ == 0 || std::equal(expected.begin() + 1, expected.end(), memory_.begin() + 1)) return;
    fmt::print(stderr, "{} bytes came as others\n", bytes);
    std::exit(1);
  }

 private:
  Bytes first(std::uint64_t bytes) { return Bytes(memory_).first(bytes); }

  const int rank_;
  End& end_;
  std::vector<std::byte> memory_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Options {
  double seconds = 0;  // of a stream, about
  int rounds = 0;
  bool sockets = false;
};

// Prints a row; whether the bar is reached. `measure` is called for either way by both processes.
template <typename Measure>
bool compare(int rank, Side& ours, Side& socket, const Options& options, const std::string& what,
             double amount, const char* unit, double bar, Measure measure) {
  std::vector<double> our_seconds, socket_seconds, ratios;
  for (int i = 0; i < options.rounds; ++i) {
    our_seconds.push_back(measure(ours));
    socket_seconds.push_back(measure(socket));
    ratios.push_back(our_seconds.back() / socket_seconds.back());
  }
  if (rank == 1) return true;
  // Bytes a second for a stream, seconds for a round trip.
  const bool is_rate = amount > 0;
  if (is_rate) std::ranges::transform(ratios, ratios.begin(), [](double ratio) { return 1 / ratio; });
  const auto shown = [&](double seconds) { return is_rate ? amount / seconds / 1e9 : seconds * 1e6; };
  const double ratio = median(ratios);
  fmt::print("| {} | {:.3g} {} | {:.3g} {} | {:.2f} ({:.2f}–{:.2f}) | {} |\n", what,
             shown(median(our_seconds)), unit, shown(median(socket_seconds)), unit, ratio,
             std::ranges::min(ratios), std::ranges::max(ratios), bar);
  std::cout.flush();
  return is_rate ? ratio >= bar : ratio <= bar;
}

bool run(int rank, Side& ours, Side& socket, const Options& options) {
  if (rank == 0) fmt::print("| what | Rookery | socket | ratio (min–max) | bar |\n|---|---|---|---|---|\n");
  bool all_well = true;
  for (const std::uint64_t mib : {1, 16, 100}) {
    const std::uint64_t bytes = mib * kMiB;
    for (Side* side : {&ours, &socket}) side->check(bytes);
    constexpr double kAbout = 3e9;  // bytes a second
    const int count = std::max(2, static_cast<int>(options.seconds * kAbout / static_cast<double>(bytes)));
    all_well &= compare(rank, ours, socket, options, fmt::format("stream of {} MiB", mib),
                        static_cast<double>(bytes) * count, "GB/s", kLeastOfStream,
                        [&](Side& side) { return side.stream(bytes, count); });
  }
  for (const bool rests : {false, true}) {
    for (const std::uint64_t kib : {1, 64}) {
      all_well &= compare(rank, ours, socket, options,
                          fmt::format("round trip of {} KiB{}", kib, rests ? " after a rest of 1 ms" : ""), 0,
                          "µs", kMostOfRoundTrip,
                          [&](Side& side) { return side.round_trip(kib * kKiB, rests ? 200 : 1000, rests); });
    }
  }
  return all_well;
}

int main_of(const Options& options) {
  const auto [one, other] = connection();
  const std::vector<int> ports = free_ports(2);
  const pid_t child = fork();
  const int rank = child == 0 ? 1 : 0;
  bool all_well = false;
  {
    Socket socket(rank == 0 ? one : other);
    Ours ours(rank, ports, !options.sockets);
    Side our_side(rank, ours), socket_side(rank, socket);
    all_well = run(rank, our_side, socket_side, options);
  }
  if (child == 0) std::_Exit(0);
  int status = 0;
  waitpid(child, &status, 0);
  return all_well && status == 0 ? 0 : 1;
}

}  // namespace
}  // namespace rookery

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  const rookery::ProgramInfo info{
      .name = "link_speed",
      .summary =
          "Tensors between two processes of this machine, against a plain TCP socket with the same bytes.",
      .example = "  link_speed --rounds 20\n"};
  rookery::ProgramOptions options;
  rookery::Options told;
  options.add_options()("seconds", po::value(&told.seconds)->default_value(0.5), "of each measurement")(
      "rounds", po::value(&told.rounds)->default_value(9), "in turns")(
      "sockets", po::bool_switch(&told.sockets), "tensors go as they do to another machine");
  return rookery::run_program(info, options, argc, argv,
                              [&](const rookery::ProgramArguments&) { return rookery::main_of(told); });
}
