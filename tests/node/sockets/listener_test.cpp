#include "node/sockets/listener.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/base/error.hpp"
#include "tests/node/transport/loopback.hpp"
#include "tests/node/transport/raw_stranger.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string problem(const std::string& address) {
  try {
    const Listener listener("node_1", Address::parse(address), "give node_1 another port");
  } catch (const TransportError& error) {
    return error.what();
  }
  return "no TransportError";
}

TEST(Listener, ListensAtAHostName) {
  const Listener listener("node_1", Address::parse("localhost:0"), "");
  EXPECT_EQ(listener.address().host, "localhost");
  EXPECT_NE(listener.address().port, 0);
  EXPECT_NO_THROW(RawStranger(listener.address().to_string()));
}

TEST(Listener, ListensAtAllAddresses) {
  for (const char* all : {"0.0.0.0:0", "*:0"}) {
    const Listener listener("node_1", Address::parse(all), "");
    EXPECT_NO_THROW(RawStranger(listener.address().to_string())) << all;
  }
}

TEST(Listener, ListensAtAnyAddressOfLoopback) {
  const Listener listener("node_1", Address::parse("127.0.0.9:0"), "");
  EXPECT_NE(listener.address().port, 0);
}

TEST(Listener, AHostNameThatDoesNotResolveSaysWhatToDo) {
  EXPECT_THAT(problem("no-such-host.invalid:8080"),
              AllOf(HasSubstr("node_1 cannot listen at no-such-host.invalid:8080"),
                    HasSubstr("cannot resolve the host name no-such-host.invalid"), HasSubstr("--listen")));
}

// RFC 5737: for documentation.
TEST(Listener, AnAddressOfAnotherMachineSaysWhatToDo) {
  EXPECT_THAT(problem("192.0.2.1:8080"),
              AllOf(HasSubstr("this machine has no address 192.0.2.1"), HasSubstr("--listen")));
}

TEST(Listener, ATakenPortNamesItsHolder) {
  const Listener holder("node_0", Address::parse("127.0.0.1:0"), "");
  EXPECT_THAT(problem(holder.address().to_string()),
              AllOf(HasSubstr("in use by process"), HasSubstr("or give node_1 another port")));
}

TEST(Listener, ATakenPortOfIpv6NamesItsHolder) {
  const Listener holder("node_0", Address::parse("[::1]:0"), "");
  EXPECT_THAT(problem(holder.address().to_string()), HasSubstr("in use by process"));
}

TEST(Listener, LinksMeetByIpv6) {
  for (const char* address : {"[::1]:0", "[::]:0"}) {
    auto links = make_loopback(2, [&](LoopbackOptions& options) { options.address = address; });
    EXPECT_TRUE(links[0]->address().starts_with("[::")) << links[0]->address();
    send_number(*links[0], 1, {.edge = "x"}, 7);
    EXPECT_EQ(receive_number(*links[1], 0, {.edge = "x"}), 7);
    std::jthread leaving([&] { links[1]->leave(); });
    links[0]->leave();
  }
}

// Who listens at all addresses of IPv6 is reached by IPv4, too.
TEST(Listener, AllAddressesAreThoseOfIpv4Too) {
  const Listener listener("node_1", Address::parse("[::]:0"), "");
  EXPECT_NO_THROW(RawStranger("127.0.0.1:" + std::to_string(listener.address().port)));
}

// Nodes that know each other by name, as /etc/hosts has it.
TEST(Listener, LinksMeetByHostName) {
  auto links = make_loopback(2, [](LoopbackOptions& options) { options.address = "localhost:0"; });
  std::jthread leaving([&] { links[1]->leave(); });
  links[0]->leave();
}

}  // namespace
}  // namespace rookery
