#include "node/transport/zmq_link.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/node/transport/loopback.hpp"
#include "tests/trainer/link_suite.hpp"

namespace rookery {
namespace {

// A group's link, and its share of the endpoint that serves it.
class SharingLink final : public Link {
 public:
  SharingLink(std::shared_ptr<Endpoint> endpoint, std::unique_ptr<ZmqLink> link)
      : endpoint_(std::move(endpoint)), link_(std::move(link)) {}

  std::unique_ptr<PendingTransfer> begin_send(int to_rank, const MessageKey& key,
                                              ConstTensorView tensor) override {
    return link_->begin_send(to_rank, key, tensor);
  }
  std::unique_ptr<PendingTransfer> begin_receive(int from_rank, const MessageKey& key,
                                                 TensorView into) override {
    return link_->begin_receive(from_rank, key, into);
  }
  void flush() override { link_->flush(); }

 private:
  std::shared_ptr<Endpoint> endpoint_;
  std::unique_ptr<ZmqLink> link_;
};

// With so many connections for data between each two, which share memory as on one machine, or do not.
template <int kConnections, bool kSharesMemory>
std::vector<Links> make_sharing_links(int groups, int ranks, std::chrono::milliseconds deadline) {
  std::vector<std::shared_ptr<Endpoint>> endpoints;
  GroupOptions options = loopback_options(0).group_options();
  options.deadline = deadline;
  for (int rank = 0; rank < ranks; ++rank) {
    EndpointOptions endpoint = loopback_options(rank).endpoint();
    endpoint.shares_memory = kSharesMemory;
    endpoints.push_back(std::make_shared<Endpoint>(endpoint));
    options.members.push_back(loopback_name(rank));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<EndpointPeer> peers;
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer != rank)
        peers.push_back({loopback_name(peer), endpoints[peer]->address(), true, kConnections});
    }
    endpoints[rank]->start(std::move(peers));
  }
  std::vector<Links> made;
  for (int group = 0; group < groups; ++group) {
    options.group = static_cast<GroupId>(group);
    std::vector<std::unique_ptr<ZmqLink>> opened;
    for (const auto& endpoint : endpoints) opened.push_back(endpoint->open(options));
    for (const auto& link : opened) link->join();
    Links& links = made.emplace_back();
    for (int rank = 0; rank < ranks; ++rank)
      links.push_back(std::make_unique<SharingLink>(endpoints[rank], std::move(opened[rank])));
  }
  return made;
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Zmq, LinkSuite,
                         testing::Values(LinkMaker{.name = "ZmqLink",
                                                   .make = make_sharing_links<1, false>,
                                                   .peer_name = loopback_name},
                                         LinkMaker{.name = "ZmqLinkOverThreeConnections",
                                                   .make = make_sharing_links<3, false>,
                                                   .peer_name = loopback_name},
                                         LinkMaker{.name = "ZmqLinkInOneMemory",
                                                   .make = make_sharing_links<1, true>,
                                                   .peer_name = loopback_name},
                                         LinkMaker{.name = "ZmqLinkInOneMemoryOverThreeConnections",
                                                   .make = make_sharing_links<3, true>,
                                                   .peer_name = loopback_name}),
                         link_maker_name);

}  // namespace rookery
