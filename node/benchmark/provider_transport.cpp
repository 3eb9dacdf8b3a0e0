// What a provider's transport adds to TCP's, and what it is on one machine (link_benchmark.hpp).
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <thread>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/runtime/profile/machine_speed.hpp"
#include "node/benchmark/link_benchmark.hpp"
#include "node/benchmark/link_benchmark_server.hpp"
#include "node/benchmark/rest.hpp"
#include "node/transport/endpoint.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Two providers' links in this process: an activation, labels and sample ids one way and a gradient back, as
// in a step, in small; then large tensors one way.
class LinkPair {
 public:
  explicit LinkPair(bool shares_memory) {
    for (int rank = 0; rank < 2; ++rank) {
      EndpointOptions options;
      options.node = name(rank);
      options.address = "127.0.0.1:0";
      options.key = {"node_benchmark", "node_benchmark"};
      options.shares_memory = shares_memory;
      endpoints_.push_back(std::make_unique<Endpoint>(options));
    }
  }

  struct Times {
    double hop_seconds = 0;
    double bytes_per_second = 0;
    double processor_seconds_per_byte = 0;  // of both sides
  };
  Times measure() {
    const std::jthread answering([this] { answer(); });
    join(0);
    Times times{.hop_seconds = hop_seconds()};
    const auto begin = Clock::now();
    const double processor_begin = processor_seconds();
    const Tensor large(DType::kU8, {kLarge});
    for (int i = 0; i < kTransfers; ++i) links_[0]->send(1, large_key(i), large.view());
    receive_number(*links_[0], 1, {.step = kRounds, .edge = kBack});
    constexpr double kBytes = static_cast<double>(kLarge) * kTransfers;
    times.bytes_per_second = kBytes / seconds_since(begin);
    times.processor_seconds_per_byte = (processor_seconds() - processor_begin) / kBytes;
    links_[0]->leave();
    return times;
  }

 private:
  static constexpr int kRounds = 300;
  static constexpr int kTransfers = 256;
  static constexpr std::int64_t kLarge = 1 << 20;
  static constexpr std::size_t kUnderWay = 64;
  static constexpr std::array<const char*, 3> kThere{"activation", "labels", "sample_ids"};
  static constexpr const char* kBack = "gradient";

  static std::string name(int rank) { return fmt::format("node_{}", rank); }
  static MessageKey large_key(int number) { return {.step = number, .edge = "large"}; }

  void join(int rank) {
    const int other = 1 - rank;
    endpoints_.at(rank)->start({{.node = name(other), .address = endpoints_.at(other)->address()}});
    GroupOptions pair;
    pair.members = {name(0), name(1)};
    pair.deadline = pair.wait_for_peers = milliseconds(10'000);
    pair.buffers = BufferPool(std::vector<std::uint64_t>(kUnderWay, kLarge));
    links_.at(rank) = endpoints_.at(rank)->open(std::move(pair));
    links_.at(rank)->join();
  }

  double hop_seconds() {
    std::vector<double> hops;
    for (int round = 0; round < kRounds; ++round) {
      rest(kRest);
      const auto begin = Clock::now();
      for (const char* value : kThere) send_number(*links_[0], 1, {.step = round, .edge = value}, 0);
      const double rested = receive_number(*links_[0], 1, {.step = round, .edge = kBack});
      hops.push_back((seconds_since(begin) - rested) / 2);
    }
    return trimmed_mean(std::move(hops));
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
      Tensor large(DType::kU8, {kLarge});
      for (int i = 0; i < kTransfers; ++i) links_[1]->receive(0, large_key(i), large.view());
      send_number(*links_[1], 0, {.step = kRounds, .edge = kBack}, 0);
      links_[1]->leave();
    } catch (const std::exception&) {
      links_[1].reset();  // fails the other side
    }
  }

  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::array<std::unique_ptr<ZmqLink>, 2> links_;  // end before the endpoints
};

struct StopWriter {
  int descriptor;
  ~StopWriter() {
    const std::uint64_t one = 1;
    static_cast<void>(::write(descriptor, &one, sizeof one));
  }
};

double tcp_latency_ms() {
  LinkBenchmarkServer server("127.0.0.1:0");
  const int stop = ::eventfd(0, EFD_CLOEXEC);
  double latency = 0;
  {
    std::jthread serving([&] { server.serve(stop); });
    const StopWriter end{stop};  // before the thread is waited for
    constexpr double kSeconds = 1.2;
    latency = measure_link(server.address(), {.seconds = kSeconds}).latency_ms;
  }
  ::close(stop);
  return latency;
}

// Would another provider on this machine be allowed to? A process always reads its own memory, and with Yama
// that of its children; so a child of this one tries.
bool others_may_read_memory() {
  static char byte = 0;
  const ::pid_t parent = ::getpid();
  const ::pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
    char own = 0;
    const iovec to{&own, 1};
    const iovec from{&byte, 1};
    ::_exit(::process_vm_readv(parent, &to, 1, &from, 1, 0) == 1 ? 0 : 1);
  }
  int status = 0;
  ::pid_t ended = 0;
  while ((ended = ::waitpid(child, &status, 0)) < 0 && errno == EINTR) continue;
  return ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

constexpr double kMbit = 1e6 / 8;

}  // namespace

ProviderTransport measure_provider_transport() {
  const LinkPair::Times times = LinkPair(false).measure();
  return {.latency_ms = std::max(0.0, 1e3 * times.hop_seconds - tcp_latency_ms()),
          .mbps = times.bytes_per_second / kMbit,
          .processor_seconds_per_byte = times.processor_seconds_per_byte / 2};
}

LinkMeasure ProviderTransport::over(const LinkMeasure& link) const {
  if (is_local)
    return {.latency_ms = latency_ms, .to_mbps = mbps, .from_mbps = mbps, .called_back = link.called_back};
  return {.latency_ms = link.latency_ms + latency_ms,
          .to_mbps = std::min(link.to_mbps, mbps),
          .from_mbps = std::min(link.from_mbps, mbps),
          .called_back = link.called_back};
}

std::optional<ProviderTransport> measure_local_transport() {
  if (!others_may_read_memory()) return std::nullopt;
  const LinkPair::Times times = LinkPair(true).measure();
  return ProviderTransport{.is_local = true,
                           .latency_ms = 1e3 * times.hop_seconds,
                           .mbps = times.bytes_per_second / kMbit,
                           .processor_seconds_per_byte = times.processor_seconds_per_byte / 2};
}

}  // namespace rookery
