#include "node/benchmark/measured_pool.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <thread>

#include "clusterize/pool/node_pool.hpp"
#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/machine/cpu_steal.hpp"
#include "models/base/machine/machine_memory.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery {
namespace {

constexpr const char* kPool = R"({
  "7": {"IP": "10.0.0.7:8080", "region": "Turin", "benchmarks": {"bandwidth": 10, "ram": 8}},
  "1": {"IP": "10.0.0.1:8080", "benchmarks": {"ram": 16, "bandwidth": 100, "gflops": 180}},
  "network": {"default": {"latency_ms": 20, "bandwidth_mbps": 50}}
})";

TEST(MeasuredPool, PutsItsNodeInAndLeavesTheRest) {
  const MeasuredNode node{.id = "7",
                          .ram_gb = 3.4567,
                          .gflops = 123.456,
                          .threads = 6,
                          .links = {{"1", {.latency_ms = 1.2345, .to_mbps = 940.4, .from_mbps = 812.9}}}};
  const OrderedJson once = with_measured(OrderedJson::parse(kPool), node);
  EXPECT_EQ(once.dump(), OrderedJson::parse(R"({
    "7": {"IP": "10.0.0.7:8080", "region": "Turin", "benchmarks": {"bandwidth": 940.0, "ram": 3.45, "gflops": 123.0},
          "threads": 6},
    "1": {"IP": "10.0.0.1:8080", "benchmarks": {"ram": 16, "bandwidth": 100, "gflops": 180}},
    "network": {"default": {"latency_ms": 20, "bandwidth_mbps": 50},
                "links": [{"between": ["7", "1"], "latency_ms": 1.23, "bandwidth_mbps": 813.0}]}
  })")
                             .dump());
  const MeasuredNode other{
      .id = "1", .ram_gb = 1, .gflops = 1, .links = {{"7", {.latency_ms = 9, .to_mbps = 5, .from_mbps = 6}}}};
  const OrderedJson twice = with_measured(once, other);
  ASSERT_EQ(twice["network"]["links"].size(), 1U) << "the same link";
  EXPECT_EQ(twice["network"]["links"][0]["latency_ms"], 9);
  EXPECT_EQ(twice["7"], once["7"]);
  EXPECT_THROW(with_measured(once, {.id = "2"}), ConfigError);
}

// What transfers take is measured with links: without any it stays as it is, and is gone where they take
// nothing.
TEST(MeasuredPool, TransfersTakeTimeWhereThereIsNoProcessorToSpare) {
  MeasuredNode node{.id = "7", .ram_gb = 1, .gflops = 1, .transfer_gbps = 1.2345};
  node.links["1"] = {.latency_ms = 1, .to_mbps = 10, .from_mbps = 10};
  const OrderedJson once = with_measured(OrderedJson::parse(kPool), node);
  EXPECT_EQ(once["7"]["benchmarks"]["transfer_gbps"], 1.23);
  node.transfer_gbps.reset();
  EXPECT_FALSE(with_measured(once, node)["7"]["benchmarks"].contains("transfer_gbps"));
  node.links.clear();
  EXPECT_EQ(with_measured(once, node)["7"]["benchmarks"]["transfer_gbps"], 1.23);
}

TEST(MeasuredPool, SaysWhoseConnectionsOthersCannotOpen) {
  MeasuredNode node{.id = "7", .ram_gb = 1, .gflops = 1};
  const OrderedJson before = with_measured(OrderedJson::parse(kPool), node);
  EXPECT_FALSE(before["7"].contains("reachable"));
  node.reachable = false;
  const OrderedJson once = with_measured(before, node);
  EXPECT_EQ(once["7"]["reachable"], false);
  EXPECT_FALSE(NodePool::from_json(Json::parse(once.dump()), "").node(1).reachable);
  node.reachable.reset();
  EXPECT_EQ(with_measured(once, node), once) << "not tried";
  node.reachable = true;
  EXPECT_EQ(with_measured(once, node), before);
}

TEST(MeasuredPool, SeveralWriteAtOnceAndNothingIsLost) {
  const ScratchFolder folder;
  const std::filesystem::path file = folder.path() / "node_configs.json";
  OrderedJson pool = OrderedJson::object();
  constexpr int kNodes = 8;
  for (int i = 0; i < kNodes; ++i) {
    pool[std::to_string(i)] = {{"IP", "10.0.0." + std::to_string(i + 1) + ":80"},
                               {"benchmarks", {{"ram", 1}, {"bandwidth", 1}}}};
  }
  write_json(file, pool);
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < kNodes; ++i) {
      writers.emplace_back([&, i] {
        write_measured(file, {.id = std::to_string(i),
                              .ram_gb = 2,
                              .gflops = 10.0 + i,
                              .links = {{std::to_string((i + 1) % kNodes), {1, 20, 20}}}});
      });
    }
  }
  const NodePool read = NodePool::read(file);
  for (int i = 0; i < kNodes; ++i) EXPECT_EQ(read.node(i).gflops, 10.0 + i);
  EXPECT_EQ(read_json(file)["network"]["links"].size(), std::size_t{kNodes});
}

TEST(AvailableMemory, IsTheLeastThatAnybodyAllows) {
  const ScratchFolder folder;
  const auto put = [&](const std::string& file, const std::string& text) {
    make_directories((folder.path() / file).parent_path());
    write_file(folder.path() / file, text);
  };
  EXPECT_EQ(available_memory(folder.path()), 0) << "nobody says anything";
  put("proc/meminfo", "MemTotal: 900 kB\nMemAvailable:     800 kB\n");
  EXPECT_EQ(available_memory(folder.path()), 800 * 1024);
  put("proc/self/cgroup", "4:cpu,memory:/a/b\n0::/user\n");
  EXPECT_EQ(available_memory(folder.path()), 800 * 1024) << "no limit";
  put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "600000\n");
  put("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "100000\n");
  EXPECT_EQ(available_memory(folder.path()), 500'000) << "of the group above";
  put("sys/fs/cgroup/user/memory.max", "max\n");
  put("sys/fs/cgroup/user/memory.current", "5\n");
  EXPECT_EQ(available_memory(folder.path()), 500'000);
  put("sys/fs/cgroup/user/memory.max", "400005\n");
  EXPECT_EQ(available_memory(folder.path()), 400'000);
}

TEST(CpuSteal, IsTheShareOfWhatWasWanted) {
  const ScratchFolder folder;
  make_directories(folder.path() / "proc");
  const auto put = [&](const std::string& text) { write_file(folder.path() / "proc/stat", text); };
  EXPECT_EQ(CpuSteal(folder.path()).share(), 0) << "the system does not say";
  put("cpu  100 10 50 9000 700 5 5 40 30 0\ncpu0 1 2 3\n");
  const CpuSteal stolen(folder.path());
  EXPECT_EQ(stolen.share(), 0) << "no time has passed";
  put("cpu  130 20 80 9900 900 10 10 60 60 0\n");
  EXPECT_DOUBLE_EQ(stolen.share(), 0.2) << "80 ticks of work, 20 of others, whatever was idle";
  put("intr 1 2\n");
  EXPECT_EQ(stolen.share(), 0);
}

}  // namespace
}  // namespace rookery
