// A node that nobody can connect to, as behind a home router: a network namespace that drops whatever opens a
// connection from outside.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <utility>
#include <vector>

#include "models/zoo/zoo.hpp"
#include "node/sockets/address.hpp"
#include "tests/node/transport/loopback.hpp"
#include "tests/support/network_namespace.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/repository.hpp"

namespace rookery {
namespace {

class BehindARouter : public testing::Test {
 protected:
  void SetUp() override {
    if (!home_.exists() || !away_.exists()) GTEST_SKIP() << "this process may make no network namespaces";
    home_.command("ip link add home type veth peer name away netns " + away_.path());
    home_.command("ip address add 10.77.0.1/24 dev home && ip link set home up");
    away_.command("ip address add 10.77.0.2/24 dev away && ip link set away up");
    away_.command("iptables -A INPUT -p tcp --syn -j DROP");
  }

  // Whether anything answers who connects to `away` from `home`, be it that nobody listens.
  bool is_answered() const {
    bool answered = true;
    home_.run([&] {
      const SocketAddress where = socket_address("10.77.0.2", 8080);
      const int descriptor = ::socket(where.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      static_cast<void>(::connect(descriptor, where.pointer(), where.size));
      pollfd item{descriptor, POLLOUT, 0};
      answered = ::poll(&item, 1, 500) != 0;
      ::close(descriptor);
    });
    return answered;
  }

  // Two stages, the first of which is at home.
  std::vector<std::unique_ptr<Link>> make_links() {
    home_.run([&] {
      EndpointOptions options = loopback_options(0).endpoint();
      options.address = "10.77.0.1:8080";
      at_home_ = std::make_unique<Endpoint>(options);
      at_home_->start({{.node = "node_1", .address = "10.77.0.2:8080", .reachable = false}});
    });
    away_.run([&] {
      EndpointOptions options = loopback_options(1).endpoint();
      options.address = "10.77.0.2:8080";
      options.reachable = false;
      outside_ = std::make_unique<Endpoint>(options);
      outside_->start({{.node = "node_0", .address = "10.77.0.1:8080"}});
    });
    const GroupOptions pipeline{.members = {"node_0", "node_1"}, .wait_for_peers = std::chrono::seconds(60)};
    std::vector<std::unique_ptr<ZmqLink>> opened;
    for (Endpoint* endpoint : {at_home_.get(), outside_.get()}) opened.push_back(endpoint->open(pipeline));
    std::vector<std::unique_ptr<Link>> links;
    for (auto& link : opened) {
      link->join();
      links.push_back(std::make_unique<LeavingLink<ZmqLink>>(std::move(link)));
    }
    return links;
  }

  NetworkNamespace home_, away_;
  std::unique_ptr<Endpoint> at_home_, outside_;
};

TEST_F(BehindARouter, TrainsWithOneThatItCanReachToTheSameBits) {
  EXPECT_FALSE(is_answered());
  const auto digits = open_dataset("digits", kNodeData);
  TrainingSettings settings;
  settings.epochs = 2;
  settings.micro_batches = 2;
  const std::vector<OpId> begins = even_cuts(cnn_net(), settings.loss, *digits, 2);
  const PipelineResult in_memory = run_pipeline(cnn_net(), begins, settings, *digits);
  const PipelineResult over_network = run_pipeline(
      cnn_net(), begins, settings, *digits, {.output = {}, .make_links = [&](int) { return make_links(); }});
  EXPECT_EQ(over_network.losses, in_memory.losses);
  EXPECT_EQ(over_network.accuracies, in_memory.accuracies);
  EXPECT_TRUE(same_state(over_network.state, in_memory.state));
}

}  // namespace
}  // namespace rookery
