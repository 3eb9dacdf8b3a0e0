// node_benchmark: what this machine and its connections can do, for node_configs.json.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "clusterize/pool/node_pool.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/machine/cpu_steal.hpp"
#include "models/base/machine/machine_memory.hpp"
#include "models/base/machine/processors.hpp"
#include "models/base/process/log.hpp"
#include "models/base/process/program.hpp"
#include "models/base/process/stop_signals.hpp"
#include "models/base/process/team_waits.hpp"
#include "models/base/process/terminal.hpp"
#include "models/base/process/threads_option.hpp"
#include "models/kernels/threads.hpp"
#include "models/runtime/profile/machine_speed.hpp"
#include "node/benchmark/link_benchmark.hpp"
#include "node/benchmark/link_benchmark_server.hpp"
#include "node/benchmark/measured_pool.hpp"
#include "node/sockets/address.hpp"

namespace rookery {
namespace {

namespace po = boost::program_options;

constexpr double kBytesPerGb = 1e9;

// What is measured at the moment.
class Doing {
 public:
  void tell(const std::string& what) { lines_.tell("measuring " + what); }
  void clear() { lines_.clear(); }

 private:
  LiveLines lines_{stderr};
};

double positive(const ProgramArguments& arguments, const std::string& name) {
  constexpr double kMost = 600;
  const auto value = arguments[name].as<double>();
  if (!(value > 0 && value <= kMost))
    throw UsageError(fmt::format("--{} {}: a number of seconds above 0, up to {}", name, value, kMost));
  return value;
}

int serve(const std::string& address) {
  check_address("--serve", address);
  catch_stop_signals();
  LinkBenchmarkServer server(address);
  fmt::print("answering at {}; Ctrl-C ends it\n", server.address());
  std::fflush(stdout);
  server.serve(stop_descriptor());
  throw_if_stopped();
  return kDone;
}

// Answers others at this node's address, unless another node_benchmark does already, so that they can try to
// connect.
class OwnServer {
 public:
  explicit OwnServer(const std::string& address) : port_(Address::parse(address).port) {
    constexpr std::chrono::milliseconds kHere{300};
    try {
      for (const std::string& here : {fmt::format("127.0.0.1:{}", port_), address}) {
        if (is_local(Address::parse(here)) && answers(here, kHere)) return;
      }
      // Behind a router the address is the router's.
      server_.emplace(is_local(Address::parse(address)) ? address : fmt::format("0.0.0.0:{}", port_));
    } catch (const TransportError& error) {
      problem_ = error.what();
      port_ = 0;
      return;
    }
    stop_ = ::eventfd(0, EFD_CLOEXEC);
    thread_ = std::jthread([this] {
      try {
        server_->serve(stop_);
      } catch (const Error&) {  // stopped while it connected to somebody
      }
    });
  }
  ~OwnServer() {
    if (!thread_.joinable()) return;
    const std::uint64_t one = 1;
    static_cast<void>(::write(stop_, &one, sizeof one));
    thread_.join();
    ::close(stop_);
  }
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  std::uint16_t port() const { return port_; }  // 0 where nobody answers
  const std::string& problem() const { return problem_; }

 private:
  std::uint16_t port_;
  std::string problem_;
  std::optional<LinkBenchmarkServer> server_;
  int stop_ = -1;
  std::jthread thread_;
};

// Which other nodes there are, and what came of measuring with each.
struct Links {
  std::map<std::string, LinkMeasure> measured;     // by id
  std::map<std::string, std::string> unreachable;  // why
  std::vector<std::string> strangers;              // "node_1": could not open a connection to this machine
  std::optional<bool> reachable;                   // could all that were measured?
  double processor_seconds_per_byte = 0;           // of sending or receiving, the most over these links
};

Links measure_links(const NodePool& pool, const std::string& self, LinkBenchmarkOptions options,
                    Doing& doing) {
  Links links;
  if (pool.nodes().size() < 2) return links;
  const OwnServer own(std::ranges::find(pool.nodes(), self, &PoolNode::id)->address);
  options.own_port = own.port();
  if (options.own_port == 0)
    without_live_lines(
        [&] { fmt::print(stderr, "whether others reach this machine is not tried: {}\n", own.problem()); });
  doing.tell("what a provider's transport adds to that of the network");
  const ProviderTransport transport = measure_provider_transport();
  std::set<std::string> here;  // ids of others on this machine
  for (const PoolNode& node : pool.nodes()) {
    if (node.id != self && is_local(Address::parse(node.address))) here.insert(node.id);
  }
  std::optional<ProviderTransport> local;
  if (!here.empty()) local = measure_local_transport();
  for (const PoolNode& node : pool.nodes()) {
    if (node.id == self) continue;
    throw_if_stopped();
    doing.tell(fmt::format("the link to node_{} ({})", node.id, node.address));
    const ProviderTransport& own_transport = local && here.contains(node.id) ? *local : transport;
    try {
      const LinkMeasure link = own_transport.over(measure_link(node.address, options));
      links.measured[node.id] = link;
      links.processor_seconds_per_byte =
          std::max(links.processor_seconds_per_byte, own_transport.processor_seconds_per_byte);
      if (!link.called_back) continue;
      links.reachable = links.reachable.value_or(true) && *link.called_back;
      if (!*link.called_back) links.strangers.push_back("node_" + node.id);
    } catch (const TransportError& error) {
      without_live_lines([&] { fmt::print(stderr, "skipped node_{}: {}\n", node.id, error.what()); });
      links.unreachable[node.id] = error.what();
    }
  }
  return links;
}

// GB/s that sending and receiving take of the time of the arithmetic, which has all processors there are: no
// more than its threads, or a share of one. `stolen`: of the time when `speed` was measured.
std::optional<double> transfer_gbps(const MachineSpeed& speed, double stolen, int threads,
                                    const Links& links) {
  const double whole = 0.95 * (1 - stolen);  // processor, but for rests and whatever else runs
  const bool is_short = usable_processors() <= threads || (threads == 1 && speed.processors < whole);
  if (links.measured.empty() || !is_short) return std::nullopt;
  return 1e-9 * std::min(1.0, speed.processors) / links.processor_seconds_per_byte;
}

MachineSpeed measure_speed(double seconds, Doing& doing) {
  SpeedMeter meter;
  meter.run(seconds, [&](const std::string& what) { doing.tell(what); });
  return meter.speed();
}

OrderedJson to_json(const MeasuredNode& node, const MachineSpeed& speed, const Links& links, double stolen) {
  OrderedJson document = {{"ram", node.ram_gb},
                          {"threads", node.threads},
                          {"gflops", speed.gflops},
                          {"products_gflops", speed.products_gflops},
                          {"convolutions_gflops", speed.convolutions_gflops},
                          {"elementwise_gbps", speed.elementwise_gbps},
                          {"update_gbps", speed.update_gbps}};
  if (!node.id.empty()) document["node"] = node.id;
  if (node.transfer_gbps) document["transfer_gbps"] = *node.transfer_gbps;
  document["links"] = OrderedJson::object();
  for (const auto& [id, link] : links.measured) {
    document["links"][id] = {
        {"latency_ms", link.latency_ms}, {"to_mbps", link.to_mbps}, {"from_mbps", link.from_mbps}};
  }
  document["unreachable"] = links.unreachable;
  if (node.reachable) document["reachable"] = *node.reachable;
  document["stolen"] = stolen;
  return document;
}

void print(const MeasuredNode& node, const MachineSpeed& speed, const Links& links) {
  fmt::print("ram             {:10.2f} GB that a provider may take\n", node.ram_gb);
  fmt::print("gflops          {:10.1f} GFLOP/s, sustained, of training, on {} thread{}\n", speed.gflops,
             node.threads, node.threads == 1 ? "" : "s");
  fmt::print("  products      {:10.1f} GFLOP/s\n  convolutions  {:10.1f} GFLOP/s\n", speed.products_gflops,
             speed.convolutions_gflops);
  fmt::print("  element-wise  {:10.1f} GB/s\n  optimizer     {:10.1f} GB/s\n", speed.elementwise_gbps,
             speed.update_gbps);
  if (node.transfer_gbps)
    fmt::print("transfers       {:10.2f} GB/s, in the time of the arithmetic\n", *node.transfer_gbps);
  for (const auto& [id, link] : links.measured) {
    fmt::print("{:<15} {:10.3f} ms, {:.0f} Mbit/s to it and {:.0f} Mbit/s from it\n", "node_" + id,
               link.latency_ms, link.to_mbps, link.from_mbps);
  }
  if (!links.strangers.empty()) {
    fmt::print(
        "reachable            no: {} could not open a connection to this machine, which opens all itself; "
        "forward "
        "its port to it to change that\n",
        fmt::join(links.strangers, ", "));
  }
}

// Those that the pool gives the node, or that a plan would: all processors, shared with others on its host.
int usual_threads(const std::optional<NodePool>& pool, const std::string& id) {
  const int processors = usable_processors();
  if (!pool) return processors;
  const NodePool known = pool->with_threads(processors);
  return *std::ranges::find(known.nodes(), id, &PoolNode::id)->threads;
}

int benchmark(const ProgramArguments& arguments) {
  init_logging("node_benchmark");
  const bool writes = arguments.count("write") != 0;
  if (arguments.count("serve") != 0) {
    if (writes)
      throw UsageError("--serve answers others and measures nothing: start another one with --write");
    return serve(arguments["serve"].as<std::string>());
  }
  const std::optional<int> given_threads = threads_of(arguments);
  const LinkBenchmarkOptions options{
      .seconds = positive(arguments, "seconds"),
      .answer = std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * positive(arguments, "wait")))};
  MeasuredNode node;
  std::optional<NodePool> pool;
  if (writes) {
    if (arguments.count("node") == 0)
      throw UsageError("--write: which node of the file is this? Give --node ID");
    node.id = arguments["node"].as<std::string>();
    if (node.id.starts_with("node_")) node.id = node.id.substr(5);
    pool = NodePool::read(arguments["write"].as<std::string>());
    if (std::ranges::find(pool->nodes(), node.id, &PoolNode::id) == pool->nodes().end())
      throw UsageError(
          fmt::format("--node {}: {} has no such node", node.id, arguments["write"].as<std::string>()));
  }
  node.threads = given_threads.value_or(usual_threads(pool, node.id));
  catch_stop_signals();
  node.ram_gb = static_cast<double>(available_memory()) / kBytesPerGb;
  set_kernel_threads(node.threads);
  Doing doing;
  const CpuSteal stolen;
  const MachineSpeed speed = measure_speed(options.seconds, doing);
  const double stolen_of_speed = stolen.share();
  node.gflops = speed.gflops;
  Links links;
  if (pool && arguments.count("no-links") == 0) links = measure_links(*pool, node.id, options, doing);
  node.links = links.measured;
  node.reachable = links.reachable;
  node.transfer_gbps = transfer_gbps(speed, stolen_of_speed, node.threads, links);
  const double stolen_of_all = stolen.share();
  doing.clear();
  if (writes) write_measured(arguments["write"].as<std::string>(), node);
  if (const std::string text = cpu_steal_text(stolen_of_all); !text.empty())
    fmt::print(stderr, "{} meanwhile: measure again when it is quieter\n", text);
  if (arguments.count("json") != 0) {
    fmt::print("{}\n", to_json(node, speed, links, stolen_of_all).dump(2));
  } else {
    print(node, speed, links);
  }
  return kDone;
}

}  // namespace

int node_benchmark_main(int argc, char** argv) {
  let_teams_sleep(argv);
  const ProgramInfo info{.name = "node_benchmark",
                         .summary =
                             "measures what clusterize needs to know of a machine: memory that a provider "
                             "may take, speed in training, "
                             "and latency and bandwidth to the other machines. First start it with --serve "
                             "on every machine, at the "
                             "address that node_configs.json gives it. Then call it with --write on one "
                             "machine after the other: its "
                             "results are merged into the file. Machines that do not answer are named and "
                             "skipped. Each that answers tries to connect back; where one cannot, the "
                             "file says \"reachable\": false. Without --write "
                             "it measures this machine alone.",
                         .example =
                             "  node_benchmark\n"
                             "  node_benchmark --serve 0.0.0.0:8080 &\n"
                             "  node_benchmark --write node_data/node_configs.json --node 0\n"};
  ProgramOptions options;
  options.add_options()("serve", po::value<std::string>()->value_name("ADDRESS"),
                        "answer others at HOST:PORT until Ctrl-C")(
      "write", po::value<std::string>()->value_name("FILE"),
      "measure against all other nodes of this node_configs.json, and put the results there")(
      "node", po::value<std::string>()->value_name("ID"),
      "with --write: which node of the file this machine is")(
      "no-links",
      "with --write: measure this machine alone, and keep what is known of its links; for machines that "
      "share a "
      "processor, on all of them at the same time")("seconds", po::value<double>()->default_value(3, "3"),
                                                    "for this machine, and for each link")(
      "wait", po::value<double>()->default_value(3, "3"), "seconds for another machine's first answer")(
      "json", "print the results as JSON");
  add_threads_option(
      options,
      "threads for arithmetic, which a plan then gives the provider; without it those of the file, or "
      "all processors that there are to use, shared with the file's other nodes on this host");
  return run_program(info, options, argc, argv, benchmark);
}

}  // namespace rookery
