#include "clusterize/pool/node_pool.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "clusterize/pool/address.hpp"
#include "tests/clusterize/plan_support.hpp"
#include "tests/support/repository.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string pool_error(const Json& document) {
  return error_of([&] { NodePool::from_json(document, "node_data/node_configs.json"); });
}

Json parse(const char* text) {
  return Json::parse(text);
}

Json one_node(const Json& changed_benchmarks) {
  Json node = node_json(8080);
  node["benchmarks"].update(changed_benchmarks);
  return {{"1", node}};
}

TEST(NodePool, ReadsNodesInTheOrderOfTheirNumbers) {
  const NodePool pool = pool_of(parse(R"({
    "10": {"IP": "10.0.0.7:8080", "benchmarks": {"ram": 16, "bandwidth": 100, "gflops": 180}, "region": "Turin"},
    "9": {"IP": "lab-3.example.org:9000", "benchmarks": {"ram": 0.5, "bandwidth": 10}}})"));
  ASSERT_EQ(pool.nodes().size(), 2U);
  EXPECT_EQ(pool.node(0).id, "9");
  EXPECT_EQ(pool.node(0).address, "lab-3.example.org:9000");
  EXPECT_EQ(pool.node(0).ram_gb, 0.5);
  EXPECT_FALSE(pool.node(0).gflops);
  EXPECT_EQ(pool.node(1).gflops, 180);
  EXPECT_EQ(pool.node(1).region, "Turin");
  EXPECT_TRUE(pool.has_speeds());
  EXPECT_FALSE(pool_of(equal_nodes(2)).has_speeds());
}

TEST(NodePool, TheMostSpecificLinkCountsAndNeverExceedsANodesOwn) {
  const NodePool pool = pool_of(parse(R"({
    "0": {"IP": "a:1", "benchmarks": {"ram": 1, "bandwidth": 500}, "region": "Turin"},
    "1": {"IP": "b:1", "benchmarks": {"ram": 1, "bandwidth": 1000}, "region": "Oslo"},
    "2": {"IP": "c:1", "benchmarks": {"ram": 1, "bandwidth": 1000}, "region": "Oslo"},
    "3": {"IP": "d:1", "benchmarks": {"ram": 1, "bandwidth": 20}},
    "network": {"default": {"latency_ms": 20, "bandwidth_mbps": 50},
                "regions": [{"between": ["Turin", "Oslo"], "latency_ms": 41, "bandwidth_mbps": 90}],
                "links": [{"between": ["1", "0"], "latency_ms": 3, "bandwidth_mbps": 940}]}})"));
  EXPECT_EQ(pool.link(0, 1), (LinkSpeed{3, 500}));
  EXPECT_EQ(pool.link(2, 0), (LinkSpeed{41, 90}));
  EXPECT_EQ(pool.link(0, 2), pool.link(2, 0));
  EXPECT_EQ(pool.link(1, 2), (LinkSpeed{20, 50}));
  EXPECT_EQ(pool.link(3, 1), (LinkSpeed{20, 20}));
  EXPECT_TRUE(pool.has_speeds());
}

TEST(NodePool, WithoutANetworkAllIsOneLocalNetwork) {
  EXPECT_EQ(pool_of(equal_nodes(2)).link(0, 1), (LinkSpeed{0.5, 10}));
}

TEST(NodePool, NodesOnOneMachineShareNoConnection) {
  const auto link = [](const char* one, const char* other, const char* network = "{}") {
    Json pool = equal_nodes(2);
    pool["0"]["IP"] = one;
    pool["1"]["IP"] = other;
    pool["network"] = Json::parse(network);
    return pool_of(pool).link(0, 1);
  };
  const LinkSpeed shared{0.1, 10'000};
  EXPECT_EQ(link("0.0.0.0:8080", "127.0.0.1:8081"), shared);
  EXPECT_EQ(link("127.0.0.2:8080", "localhost:8080"), shared);
  EXPECT_EQ(link("10.0.0.7:8080", "10.0.0.7:8081"), shared);
  EXPECT_EQ(link("10.0.0.7:8080", "0.0.0.0:8081"), (LinkSpeed{0.5, 10}));
  const char* given = R"({"default": {"latency_ms": 3, "bandwidth_mbps": 50}})";
  EXPECT_EQ(link("0.0.0.0:8080", "0.0.0.0:8081", given), (LinkSpeed{3, 10})) << "what is given holds";

  Json pool = equal_nodes(3);
  pool["0"]["IP"] = pool["1"]["IP"] = "10.0.0.7:8080";
  pool["1"]["IP"] = "10.0.0.7:8081";
  EXPECT_EQ(pool_of(pool).connection_mbps(0), 10) << "node 2 is reached by it";
  pool.erase("2");
  EXPECT_EQ(pool_of(pool).connection_mbps(0), 10'000) << "nobody is";
}

// A worldwide pool as published, cut down to one node a region.
TEST(NodePool, ReadsARegionTable) {
  const NodePool pool = NodePool::read(kRepository / "tests/clusterize/pool/worldwide.json");
  ASSERT_EQ(pool.nodes().size(), 3U);
  EXPECT_EQ(pool.link(0, 1), (LinkSpeed{67, 790}));
  EXPECT_EQ(pool.link(1, 2), (LinkSpeed{143, 524}));
  EXPECT_EQ(pool.node(2).gflops, 1000);
}

TEST(NodePool, KnowsWhoCanConnect) {
  Json document = equal_nodes(3);
  document["0"]["reachable"] = false;
  document["1"]["reachable"] = true;
  document["2"]["reachable"] = false;
  const NodePool pool = pool_of(document);
  EXPECT_TRUE(pool.can_connect(0, 1));
  EXPECT_TRUE(pool.can_connect(1, 2));
  EXPECT_FALSE(pool.can_connect(0, 2));
  EXPECT_FALSE(pool.without({"1"}).can_connect(0, 1));
  EXPECT_TRUE(pool.with_reachable({0}).can_connect(0, 2));
  EXPECT_FALSE(pool.with_reachable({1}).can_connect(0, 2));
  EXPECT_TRUE(pool_of(equal_nodes(1)).node(0).reachable);
}

// Those that do not say how many share what the others of their host leave.
TEST(NodePool, NodesOfAHostShareItsProcessors) {
  Json document = equal_nodes(5);
  document["0"]["IP"] = "127.0.0.1:8080";
  document["1"]["IP"] = "localhost:8081";
  document["2"]["IP"] = "0.0.0.0:8082";
  document["2"]["threads"] = 3;
  document["4"]["threads"] = 6;
  const NodePool pool = pool_of(document);
  EXPECT_EQ(pool.all_threads(), (std::set{1, 3, 6})) << "not said is one";
  const auto threads = [&](int processors) {
    const NodePool with = pool.with_threads(processors);
    std::vector<int> all;
    for (int i = 0; i < with.size(); ++i) all.push_back(with.threads(i));
    return all;
  };
  EXPECT_EQ(threads(8), (std::vector{2, 2, 3, 8, 6}));
  EXPECT_EQ(threads(2), (std::vector{1, 1, 3, 2, 6}));
  EXPECT_EQ(pool.without({"1"}).with_threads(8).threads(0), 5);
  document["4"]["threads"] = 0;
  EXPECT_THAT(pool_error(document), HasSubstr("4/threads: 0 is not a number of threads from 1 to 1024"));
  document["4"]["threads"] = 1.5;
  EXPECT_THAT(pool_error(document), HasSubstr("4/threads: 1.5 is not"));
}

// One address, however it is written.
TEST(NodePool, AnIpv6AddressIsOneMachine) {
  Json document = equal_nodes(2);
  document["0"]["IP"] = "[2001:db8::7]:8080";
  document["1"]["IP"] = "[2001:DB8:0:0::7]:8081";
  EXPECT_EQ(pool_of(document).link(0, 1), (LinkSpeed{0.1, 10'000}));
  document["1"]["IP"] = "[2001:DB8:0:0::7]:8080";
  EXPECT_THAT(pool_error(document), HasSubstr("1/IP: \"[2001:DB8:0:0::7]:8080\" is node 0's address too"));
  document["0"]["IP"] = "[::1]:8080";
  document["1"]["IP"] = "127.0.0.1:8081";
  EXPECT_EQ(pool_of(document).link(0, 1), (LinkSpeed{0.1, 10'000})) << "both are this machine";
  EXPECT_EQ(host_of("[0:0:0:0:0:0:0:1]:8080"), "[::1]");
  EXPECT_EQ(host_of("lab-3:8080"), "lab-3");
}

TEST(NodePoolErrors, NameFilePlaceValueAndUnit) {
  EXPECT_EQ(pool_error(one_node({{"ram", -8}})),
            "node_data/node_configs.json: 1/benchmarks/ram: -8 is not a positive number of GB, e.g. 8");
  EXPECT_EQ(
      pool_error(one_node({{"bandwidth", 0}})),
      "node_data/node_configs.json: 1/benchmarks/bandwidth: 0 is not a positive number of Mbit/s, e.g. 100");
  EXPECT_EQ(pool_error(one_node({{"gflops", -1.5}})),
            "node_data/node_configs.json: 1/benchmarks/gflops: -1.5 is not a positive number of GFLOP/s, "
            "e.g. 180");
  EXPECT_EQ(pool_error(one_node({{"ram", 1e9}})),
            "node_data/node_configs.json: 1/benchmarks/ram: 1000000000 is more than 1000000 GB: is it in GB? "
            "An example: 8");
  EXPECT_EQ(pool_error(one_node({{"ram", std::nan("")}})),
            "node_data/node_configs.json: 1/benchmarks/ram: nan is not a positive number of GB, e.g. 8");
}

TEST(NodePoolErrors, AWrongTypeIsToldInOurWords) {
  EXPECT_EQ(pool_error(one_node({{"ram", "8GB"}})),
            "node_data/node_configs.json: 1/benchmarks/ram: \"8GB\" is not a number of GB, e.g. 8");
  const auto with = [](const char* key, const Json& value) {
    Json pool = equal_nodes(1);
    pool["0"][key] = value;
    return pool_error(pool);
  };
  EXPECT_EQ(with("IP", 8080),
            "node_data/node_configs.json: 0/IP: 8080 is not an address, e.g. \"10.0.0.7:8080\"");
  EXPECT_EQ(with("region", Json::array({1})),
            "node_data/node_configs.json: 0/region: [1] is not the name of a region, e.g. \"Turin\"");
  EXPECT_EQ(
      with("reachable", "no"),
      "node_data/node_configs.json: 0/reachable: \"no\" is neither true nor false: false says that others "
      "cannot open connections to the node");
  EXPECT_EQ(with("benchmarks", 3),
            "node_data/node_configs.json: 0/benchmarks: 3 is not an object, e.g. {\"ram\": 8, \"bandwidth\": "
            "100}");
  EXPECT_THAT(pool_error({{"0", "10.0.0.7"}}),
              HasSubstr("node_configs.json: 0: \"10.0.0.7\" is not an object, e.g. {\"IP\""));
  EXPECT_THAT(pool_error({{"nodes", equal_nodes(2)}}), HasSubstr("\"nodes\" is not a node"));
  Json pool = equal_nodes(2);
  for (const char* key : {"regions", "links"}) {
    pool["network"] = {{key, {{"between", {"0", "1"}}}}};
    EXPECT_THAT(pool_error(pool), HasSubstr(fmt::format("network/{}: {{\"between\":[\"0\",\"1\"]}} is not a "
                                                        "list, e.g. [{{\"between\": ",
                                                        key)));
  }
  pool["network"] = {{"links", {{{"between", {0, 1}}, {"latency_ms", 1}, {"bandwidth_mbps", 1}}}}};
  EXPECT_THAT(
      pool_error(pool),
      HasSubstr("network/links/0/between: [0,1] is not two nodes' ids in quotes, e.g. [\"0\", \"1\"]"));
  pool["network"] = "LAN";
  EXPECT_THAT(pool_error(pool), HasSubstr("network: \"LAN\" is not an object, e.g. {\"default\": "));
}

TEST(NodePoolErrors, EverythingThatIsWrongIsToldAtOnce) {
  const std::string told = pool_error(parse(R"({
    "0": {"IP": "lab", "benchmarks": {"ram": "much", "bandwidth": 1, "gflop": 3}},
    "1": {"benchmarks": {"ram": 8}},
    "network": {"default": {"latency_ms": "low"}}})"));
  for (const char* part :
       {"0/IP: \"lab\" has no port: write HOST:PORT, e.g. 10.0.0.7:8080", "0/benchmarks/ram: \"much\" is not",
        "0/benchmarks/gflop: there is no such key; did you mean 'gflops'?",
        "1/IP: is missing: give the address where others reach it, e.g. \"10.0.0.7:8080\"",
        "1/benchmarks/bandwidth: is missing: give a positive number of Mbit/s, e.g. 100",
        "network/default/latency_ms: \"low\" is not a number of ms, e.g. 20",
        "network/default/bandwidth_mbps: is missing"})
    EXPECT_THAT(told, HasSubstr(part));
  EXPECT_THAT(told, Not(HasSubstr("nodes/")));
  Json many = equal_nodes(30);
  for (Json& node : many) node["benchmarks"]["ram"] = "x";
  EXPECT_THAT(pool_error(many), HasSubstr("; and 20 more problems"));
}

TEST(NodePoolErrors, NumbersBeyondAllMachines) {
  for (const char* key : {"ram", "bandwidth", "gflops", "transfer_gbps"}) {
    const std::string place = fmt::format("node_configs.json: 1/benchmarks/{}: ", key);
    for (const double value : {1e300, 1e10}) {
      EXPECT_THAT(pool_error(one_node({{key, value}})), AllOf(HasSubstr(place), HasSubstr("is it in")));
    }
    const double infinity = std::numeric_limits<double>::infinity();
    for (const double value : {-1e300, infinity, -infinity, std::nan(""), 0.0, -0.0}) {
      EXPECT_THAT(pool_error(one_node({{key, value}})),
                  AllOf(HasSubstr(place), HasSubstr("is not a positive")));
    }
  }
  Json pool = equal_nodes(2);
  for (const double value : {std::nan(""), -1e-9, 1e300}) {
    pool["network"] = {{"default", {{"latency_ms", value}, {"bandwidth_mbps", 50}}}};
    EXPECT_THAT(pool_error(pool), HasSubstr("network/default/latency_ms: "));
    pool["network"] = {{"default", {{"latency_ms", 1}, {"bandwidth_mbps", value}}}};
    EXPECT_THAT(pool_error(pool), HasSubstr("network/default/bandwidth_mbps: "));
  }
}

TEST(NodePoolErrors, AMissingKeyIsNamed) {
  EXPECT_EQ(pool_error(parse(R"({"1": {"IP": "0.0.0.0:8080", "benchmarks": {"ram": 8}}})")),
            "node_data/node_configs.json: 1/benchmarks/bandwidth: is missing: give a positive number of "
            "Mbit/s, e.g. 100");
  EXPECT_EQ(pool_error(parse(R"({"1": {"IP": "0.0.0.0:8080"}})")),
            "node_data/node_configs.json: 1/benchmarks: is missing: give {\"ram\": 8, \"bandwidth\": 100}");
}

TEST(NodePoolErrors, AnUnknownKeyIsAnsweredWithTheNearest) {
  EXPECT_EQ(pool_error(one_node({{"bandwith", 10}})),
            "node_data/node_configs.json: 1/benchmarks/bandwith: there is no such key; did you mean "
            "'bandwidth'?");
  Json pool = equal_nodes(1);
  pool["0"]["colour"] = "red";
  EXPECT_EQ(pool_error(pool),
            "node_data/node_configs.json: 0/colour: there is no such key; there are IP, benchmarks, threads, "
            "region, reachable");
  pool = equal_nodes(1);
  pool["0"]["Region"] = "Turin";
  EXPECT_THAT(pool_error(pool), HasSubstr("0/Region: there is no such key; did you mean 'region'?"));
  pool = equal_nodes(1);
  pool["netwrok"] = Json::object();
  EXPECT_EQ(pool_error(pool),
            "node_data/node_configs.json: netwrok: there is no such key; did you mean 'network'?");
}

TEST(NodePoolErrors, IdsAreWholeNumbers) {
  for (const char* id : {"-1", "01", "1.0", "one", "", "1234567", "0x1"}) {
    EXPECT_THAT(pool_error({{id, node_json(8080)}}), HasSubstr("a node's id is a whole number")) << id;
  }
}

TEST(NodePoolErrors, AnAddressIsNobodyElses) {
  EXPECT_EQ(pool_error({{"0", node_json(8080)}, {"1", node_json(8080)}}),
            "node_data/node_configs.json: 1/IP: \"host8080:8080\" is node 0's address too: each node "
            "has its own");
}

TEST(NodePoolErrors, NoNodes) {
  EXPECT_THAT(pool_error(Json::object()), HasSubstr("there are no nodes: add one"));
  EXPECT_THAT(pool_error(Json::array()), HasSubstr("[] is not an object of nodes, e.g. {\"0\": "));
}

TEST(NodePoolErrors, NetworksAreChecked) {
  Json pool = equal_nodes(2);
  pool["network"] = parse(R"({"default": {"latency_ms": -1, "bandwidth_mbps": 50}})");
  EXPECT_EQ(pool_error(pool),
            "node_data/node_configs.json: network/default/latency_ms: -1 is not a number of ms from 0 to "
            "60000, e.g. 20");
  pool["network"] = parse(R"({"links": [{"between": ["0", "7"], "latency_ms": 1, "bandwidth_mbps": 50}]})");
  EXPECT_EQ(pool_error(pool), "node_data/node_configs.json: network/links: there is no node \"7\"");
  pool["network"] = parse(R"({"links": [{"between": ["0", "1"], "latency_ms": 1, "bandwidth_mbps": 50},
                                        {"between": ["1", "0"], "latency_ms": 2, "bandwidth_mbps": 50}]})");
  EXPECT_EQ(pool_error(pool),
            "node_data/node_configs.json: network/links/1/between: \"0\" and \"1\" are there twice");
  pool["network"] = parse(R"({"regions": [{"between": ["a"], "latency_ms": 1, "bandwidth_mbps": 50}]})");
  EXPECT_THAT(pool_error(pool), HasSubstr("network/regions/0/between"));
  pool["network"] = parse(R"({"default": {"latency": 1, "bandwidth_mbps": 50}})");
  EXPECT_THAT(pool_error(pool),
              HasSubstr("network/default/latency: there is no such key; there are latency_ms"));
}

TEST(Address, IsAnIpAddressOrHostNameWithAPort) {
  for (const char* good : {"0.0.0.0:8080", "255.255.255.255:65535", "localhost:1", "a-1.example.org:80",
                           "lab_pc_3:8080", "_dmz.lab_2.example:80", "[::1]:8080", "[::]:1",
                           "[2001:DB8:0:0:0:0:0:7]:65535", "[::ffff:10.0.0.7]:80"})
    EXPECT_EQ(address_problem(good), "") << good;
  for (const char* bad : {"",
                          ":",
                          ":80",
                          "10.0.0.7",
                          "10.0.0.7:",
                          "10.0.0.7:0",
                          "10.0.0.7:65536",
                          "10.0.0.7:8080 ",
                          "10.0.0.7:08",
                          "10.0.0:80",
                          "10.0.0.256:80",
                          "10.0.0.07:80",
                          "../../x:1",
                          "a/b:1",
                          "a..b:1",
                          ".:1",
                          "..:1",
                          "-a:1",
                          "a_:-1",
                          "a b:1",
                          "tcp://a:1",
                          "::1:80",
                          "::1",
                          "[::1]",
                          "[::1]80",
                          "[::1]:0",
                          "[]:80",
                          "[:]:80",
                          "[::1::2]:80",
                          "[1:2:3:4:5:6:7:8:9]:80",
                          "[fe80::1%eth0]:80",
                          "[10.0.0.7]:80",
                          "[::1/64]:80",
                          "[../..]:80",
                          "[lab]:80",
                          "10.0.0.7:-1",
                          "10.0.0.7:+1",
                          "10.0.0.7:8e3"})
    EXPECT_NE(address_problem(bad), "") << bad;
  EXPECT_NE(address_problem(std::string("a\0b:1", 5)), "");
  EXPECT_NE(address_problem(std::string("[::1\0]:1", 8)), "");
  EXPECT_EQ(address_problem("2001:db8::7:8080"),
            "is an IPv6 address without brackets: write [HOST]:PORT, e.g. [2001:db8::7]:8080");
  EXPECT_NE(address_problem(std::string(300, 'a') + ":1"), "");
}

TEST(NodePool, IsDividedIntoTheChunksOfItsMachines) {
  const NodePool pool = pool_of(parse(R"({
    "0": {"IP": "10.0.0.7:8080", "benchmarks": {"ram": 16, "bandwidth": 100}, "region": "Turin"},
    "1": {"IP": "10.0.0.8:65000", "benchmarks": {"ram": 8, "bandwidth": 50, "gflops": 20}, "threads": 3},
    "network": {"links": [{"between": ["0", "1"], "latency_ms": 20, "bandwidth_mbps": 30}]}})"));
  const NodePool divided = pool.divided({{10, 6}, {8}});
  ASSERT_EQ(divided.size(), 3);
  EXPECT_EQ(divided.node(1).id, "0.1");
  EXPECT_EQ(divided.node(1).address, "10.0.0.7:9080");
  EXPECT_EQ(divided.node(1).chunk, 1);
  EXPECT_EQ(divided.node(1).ram_gb, 6);
  EXPECT_EQ(divided.node(1).region, "Turin");
  EXPECT_EQ(divided.node(2).address, "10.0.0.8:65000");
  EXPECT_EQ(divided.machine(0), divided.machine(1));
  EXPECT_NE(divided.machine(1), divided.machine(2));
  EXPECT_EQ(divided.link(1, 2), (LinkSpeed{20, 30}));
  EXPECT_EQ(divided.link(0, 2), divided.link(1, 2));
  EXPECT_LT(divided.link(0, 1).latency_ms, 1);  // within a machine
  EXPECT_EQ(pool.machine(1), 1);
}

TEST(Address, OfAFurtherChunkIsAtAPortThatIsFree) {
  EXPECT_EQ(further_address("10.0.0.7:8080", 2, {8080}), "10.0.0.7:10080");
  EXPECT_EQ(further_address("10.0.0.7:65000", 1, {65000}), "10.0.0.7:64000");
  EXPECT_EQ(further_address("[::1]:8080", 1, {8080, 9080, 9081}), "[::1]:9082");
  EXPECT_EQ(further_address("lab:64535", 1, {65535}), "lab:1024");
}

}  // namespace
}  // namespace rookery
