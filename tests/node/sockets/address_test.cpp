#include "node/sockets/address.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "clusterize/pool/address.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "node/transport/endpoint.hpp"
#include "tests/node/transport/loopback.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

TEST(Address, HasHostAndPort) {
  const Address address = Address::parse("10.0.0.7:8080");
  EXPECT_EQ(address.host, "10.0.0.7");
  EXPECT_EQ(address.port, 8080);
  EXPECT_EQ(address.to_string(), "10.0.0.7:8080");
}

TEST(Address, OfIpv6IsInBrackets) {
  const Address address = Address::parse("[2001:db8::7]:8080");
  EXPECT_EQ(address.host, "2001:db8::7");
  EXPECT_EQ(address.port, 8080);
  EXPECT_EQ(address.to_string(), "[2001:db8::7]:8080");
  EXPECT_TRUE(address.is_ipv6());
  EXPECT_FALSE(Address::parse("10.0.0.7:8080").is_ipv6());
  EXPECT_FALSE(Address::parse("localhost:8080").is_ipv6());
  EXPECT_EQ(Address::parse("[::]:1").reachable().to_string(), "[::1]:1");
}

TEST(Address, OfIpv6WithoutBracketsSaysSo) {
  for (const char* text : {"::1:8080", "2001:db8::7:8080"}) {
    EXPECT_THAT(address_problem(text), HasSubstr("IPv6 address without brackets: write [HOST]:PORT")) << text;
  }
}

TEST(Address, AnythingElseIsRefused) {
  for (const char* text :
       {"",         "8080",   "host",      "host:",        ":8080",       "host:80a",  "host:65536",
        "host:-1",  "a b:1",  "-a:1",      "10.0.0.256:1", "10.0.0.7:08", "tcp://a:1", "**:1",
        "[::1]",    "[::1]:", "[::1]8080", "[10.0.0.7]:1", "[]:1",        "[::g]:1",   "[fe80::1%eth0]:1",
        "[::1:8080"}) {
    EXPECT_THROW(Address::parse(text), ConfigError) << text;
  }
}

// What a pool may have, node_benchmark and providers take, too. Port 0 and * are for those who listen.
TEST(Address, IsWhatAPoolMayHave) {
  for (const char* text : {"lab_pc_3:8080", "a-1.example.org:80", "localhost:1", "0.0.0.0:65535",
                           "[::1]:8080", "[2001:db8:0:0:0:0:0:7]:1"}) {
    EXPECT_EQ(address_problem(text), "") << text;
    EXPECT_EQ(Address::parse(text).to_string(), text);
  }
  EXPECT_EQ(Address::parse("127.0.0.1:0").port, 0);
  EXPECT_EQ(Address::parse("*:8080").host, "*");
  for (const char* text : {"127.0.0.1:0", "*:8080"}) EXPECT_NE(address_problem(text), "") << text;
}

TEST(Address, EveryInterfaceIsReachedOnThisMachine) {
  EXPECT_EQ(Address::parse("0.0.0.0:8080").reachable().to_string(), "127.0.0.1:8080");
  EXPECT_EQ(Address::parse("10.0.0.7:8080").reachable().to_string(), "10.0.0.7:8080");
}

TEST(Address, ThisMachineIsLocal) {
  EXPECT_TRUE(is_local(Address::parse("0.0.0.0:1")));
  EXPECT_TRUE(is_local(Address::parse("127.0.0.1:1")));
  EXPECT_TRUE(is_local(Address::parse("[::1]:1")));
  EXPECT_TRUE(is_local(Address::parse("[::]:1")));
  EXPECT_FALSE(is_local(Address::parse("[2001:db8::1]:1")));  // RFC 3849: for documentation
  EXPECT_FALSE(is_local(Address::parse("192.0.2.1:1")));      // RFC 5737: for documentation
}

TEST(Address, ATakenPortNamesItsHolder) {
  const LoopbackLink holder(loopback_options(0));
  LoopbackOptions second = loopback_options(1);
  second.address = holder.address();
  try {
    const LoopbackLink link(second);
    FAIL() << "the port was given twice";
  } catch (const TransportError& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(HasSubstr("node_1 cannot listen at " + second.address), HasSubstr("in use"),
                               HasSubstr(fmt::format("process {}", ::getpid()))));
  }
}

TEST(Address, AnAddressOfAnotherMachineSaysSo) {
  LoopbackOptions options = loopback_options(0);
  options.address = "192.0.2.1:8080";
  try {
    const LoopbackLink link(options);
    FAIL() << "listening at an address that is not ours";
  } catch (const TransportError& error) {
    EXPECT_THAT(error.what(), HasSubstr("this machine has no address 192.0.2.1"));
  }
}

}  // namespace
}  // namespace rookery
