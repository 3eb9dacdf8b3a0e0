#include "node/transport/zmq_link.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/node/transport/loopback.hpp"
#include "tests/trainer/link_suite.hpp"

namespace rookery {

INSTANTIATE_TEST_SUITE_P(Zmq, LinkSuite,
                         testing::Values(LinkMaker{
                             .name = "ZmqLink",
                             .make =
                                 [](int stages, std::chrono::milliseconds deadline) {
                                   auto made = make_loopback(stages, [&](auto& o) { o.deadline = deadline; });
                                   std::vector<std::unique_ptr<Link>> links;
                                   for (auto& link : made) links.push_back(std::move(link));
                                   return links;
                                 },
                             .peer_name = [](int stage) { return fmt::format("node_{}", stage); }}),
                         link_maker_name);

}  // namespace rookery
