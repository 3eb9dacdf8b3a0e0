// The sum over the members of a ring, each a process on this machine, against gloo's all-reduce: the same
// tensors, in alternation, results first.
//
//   build/bin/ring_all_reduce [--processes 2,3,4] [--megabytes 4,100] [--seconds 5]
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "bench/local_endpoints.hpp"
#include "models/base/libraries/format.hpp"
#include "node/wire/stream.hpp"
#include "tests/support/free_ports.hpp"
#include "trainer/averaging/ring/ring_all_reduce.hpp"

namespace rookery {
namespace {

using Seconds = std::chrono::duration<double>;
using Floats = std::vector<float>;

// What gloo is tried with; the fastest of each size is what is compared with.
struct GlooWay {
  std::string name;
  gloo::AllreduceOptions::Algorithm algorithm;
  std::size_t segment;  // bytes; 0: its own choice
};
const std::vector<GlooWay> kGlooWays{
    {"ring", gloo::AllreduceOptions::Algorithm::RING, 0},
    {"ring, segments of 256 KiB", gloo::AllreduceOptions::Algorithm::RING, 256U << 10},
    {"ring, segments of 4 MiB", gloo::AllreduceOptions::Algorithm::RING, 4U << 20},
    {"bcube", gloo::AllreduceOptions::Algorithm::BCUBE, 0},
};

// Of processes, in the kernel: while one side is timed, the other's sockets and threads have nothing to do.
class Meeting {
 public:
  explicit Meeting(int members)
      : barrier_(static_cast<pthread_barrier_t*>(
            mmap(nullptr, sizeof *barrier_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(barrier_, &shared, static_cast<unsigned>(members));
  }
  void wait() const { pthread_barrier_wait(barrier_); }

 private:
  pthread_barrier_t* barrier_;  // until the program ends
};

// What a round took, of time and of this process's processors.
struct Cost {
  double seconds;
  double busy;
};

double busy_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

template <typename Work>
Cost cost_of(Work work) {
  const double busy = busy_seconds();
  const auto begin = std::chrono::steady_clock::now();
  work();
  const double seconds = Seconds(std::chrono::steady_clock::now() - begin).count();
  return {seconds, busy_seconds() - busy};
}

// One process's place in both.
class Member {
 public:
  Member(int rank, int members, const std::vector<int>& ports, const std::filesystem::path& folder,
         std::uint64_t most_bytes, const Meeting& meeting)
      : rank_(rank), meeting_(meeting), endpoint_(local_endpoint(ports, rank)) {
    std::vector<EndpointPeer> peers;
    GroupOptions options;
    for (int peer = 0; peer < members; ++peer) {
      options.members.push_back(local_node(peer));
      if (peer != rank) peers.push_back(local_peer(ports, peer));
    }
    endpoint_.start(std::move(peers));
    const RingTraffic traffic =
        ring_traffic({.numbers = most_bytes / sizeof(float), .tensors = 1}, {}, {}, members);
    options.group = 1;
    options.topology = Topology::kRing;
    options.priority = kRingPriority;
    options.max_message_bytes = traffic.message_bytes;
    options.send_budget = options.receive_budget =
        traffic.messages * message_cost(traffic.message_bytes, kMaxChunkBytes);
    // Those that begin here; the others are handed on in the memory that they came in.
    options.buffers = BufferPool(std::vector<std::uint64_t>(traffic.messages, traffic.message_bytes));
    options.keeps_arrivals = true;
    link_ = endpoint_.open(std::move(options));
    link_->join();
    ring_.emplace(*link_, rank, members);

    gloo::transport::tcp::attr attributes;
    attributes.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto store = std::make_shared<gloo::rendezvous::FileStore>(folder.string());
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, members);
    context->connectFullMesh(*store, device);
    gloo_ = context;
  }
  ~Member() { link_->leave(); }

  int rank() const { return rank_; }

  Cost ours(Floats& numbers) {
    const RingTensor tensor{.numbers = numbers};
    meeting_.wait();
    return cost_of([&] { ring_->sum(round_++, std::span(&tensor, 1)); });
  }
  Cost gloos(Floats& numbers, const GlooWay& way) {
    gloo::AllreduceOptions options(gloo_);
    options.setOutput(numbers.data(), numbers.size());
    options.setAlgorithm(way.algorithm);
    if (way.segment != 0) options.setMaxSegmentSize(way.segment);
    options.setReduceFunction(
        [](void* to, const void* a, const void* b, std::size_t count) { gloo::sum<float>(to, a, b, count); });
    meeting_.wait();
    return cost_of([&] { gloo::allreduce(options); });
  }
  // The same on all: that of rank 0.
  bool goes_on(bool wish) {
    std::vector<float> number{rank_ == 0 && wish ? 1.0F : 0.0F};
    gloos(number, kGlooWays.front());
    return number[0] > 0;
  }

 private:
  const int rank_;
  const Meeting& meeting_;
  Endpoint endpoint_;
  std::unique_ptr<ZmqLink> link_;
  std::optional<RingAllReduce> ring_;
  std::shared_ptr<gloo::Context> gloo_;
  std::int64_t round_ = 0;
};

Floats numbers_of(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank));
  std::uniform_real_distribution<float> uniform(-1, 1);
  Floats numbers(count);
  for (float& number : numbers) number = uniform(random);
  return numbers;
}

// Both sums are that of the members, but for rounding.
void check(Member& member, int members, std::size_t count) {
  std::vector<double> expected(count);
  for (int rank = 0; rank < members; ++rank) {
    const Floats numbers = numbers_of(rank, count);
    for (std::size_t i = 0; i < count; ++i) expected[i] += double{numbers[i]};
  }
  const auto compare = [&](const std::string& what, const Floats& sum) {
    for (std::size_t i = 0; i < count; ++i) {
      if (std::abs(double{sum[i]} - expected[i]) <= 1e-6 * members) continue;
      fmt::print(stderr, "{}: {} where the sum is {}\n", what, sum[i], expected[i]);
      std::exit(1);
    }
  };
  Floats numbers = numbers_of(member.rank(), count);
  member.ours(numbers);
  compare("ours", numbers);
  for (const GlooWay& way : kGlooWays) {
    numbers = numbers_of(member.rank(), count);
    member.gloos(numbers, way);
    compare("gloo, " + way.name, numbers);
  }
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void measure(Member& member, int members, int megabytes, double seconds) {
  const std::size_t count = static_cast<std::size_t>(megabytes) * 1'000'000 / sizeof(float);
  check(member, members, count);
  Floats numbers(count);
  std::vector<double> ours, ours_busy;
  std::map<std::string, std::vector<double>> gloos, ratios, busy_ratios;
  const auto begin = std::chrono::steady_clock::now();
  do {
    const Cost own = member.ours(numbers);
    ours.push_back(own.seconds);
    ours_busy.push_back(own.busy);
    for (const GlooWay& way : kGlooWays) {
      const Cost theirs = member.gloos(numbers, way);
      gloos[way.name].push_back(theirs.seconds);
      ratios[way.name].push_back(theirs.seconds / own.seconds);
      busy_ratios[way.name].push_back(theirs.busy / own.busy);
    }
  } while (
      member.goes_on(Seconds(std::chrono::steady_clock::now() - begin).count() < seconds || ours.size() < 8));
  if (member.rank() != 0) return;
  const double bytes = static_cast<double>(count * sizeof(float));
  fmt::print("{} processes, {} MB: ours {:.2f} GB/s in {} rounds, {:.2f} ms of a processor in each\n",
             members, megabytes, bytes / median(ours) / 1e9, ours.size(), median(ours_busy) * 1e3);
  for (const GlooWay& way : kGlooWays) {
    fmt::print("  gloo, {:<26} {:>5.2f} GB/s, ours by it {:.2f}; of processors {:.2f}\n", way.name,
               bytes / median(gloos[way.name]) / 1e9, median(ratios[way.name]),
               median(busy_ratios[way.name]));
  }
}

std::vector<int> list_of(const std::string& text) {
  std::vector<int> numbers;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) numbers.push_back(std::stoi(part));
  return numbers;
}

// Each member is a process: what one does to the memory and the threads of another is no part of it.
bool run(int members, const std::vector<int>& megabytes, double seconds) {
  std::string folder = (std::filesystem::temp_directory_path() / "rookery_ring_XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return false;
  const std::vector<int> ports = free_ports(members);
  const auto most = static_cast<std::uint64_t>(std::ranges::max(megabytes)) * 1'000'000;
  const Meeting meeting(members);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < members; ++rank) {
    const pid_t process = fork();
    processes.push_back(process);
    if (process != 0) continue;
    {
      Member member(rank, members, ports, folder, most, meeting);
      for (const int size : megabytes) measure(member, members, size, seconds);
    }
    std::cout.flush();
    std::_Exit(0);
  }
  bool all_well = true;
  for (int status = 0; wait(&status) > 0;) {
    if (status != 0 && std::exchange(all_well, false))
      for (const pid_t process : processes)
        kill(process, SIGKILL);  // they would wait for the one that failed
  }
  std::filesystem::remove_all(folder);
  return all_well;
}

}  // namespace
}  // namespace rookery

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  po::options_description options;
  options.add_options()("processes", po::value<std::string>()->default_value("2,3,4"))(
      "megabytes", po::value<std::string>()->default_value("4,100"))("seconds",
                                                                     po::value<double>()->default_value(5));
  po::variables_map given;
  po::store(po::parse_command_line(argc, argv, options), given);
  for (const int members : rookery::list_of(given["processes"].as<std::string>())) {
    if (!rookery::run(members, rookery::list_of(given["megabytes"].as<std::string>()),
                      given["seconds"].as<double>()))
      return 1;
  }
  return 0;
}
