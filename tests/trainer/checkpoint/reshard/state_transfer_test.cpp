#include "trainer/checkpoint/reshard/state_transfer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "tests/support/on_all_nodes.hpp"
#include "trainer/checkpoint/reshard/pieces.hpp"
#include "trainer/memory_link.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

using Bytes = std::vector<std::byte>;

TensorType bytes_type(std::size_t bytes) {
  return {DType::kU8, Shape{static_cast<std::int64_t>(bytes)}};
}

// Tensors of a run, by name.
Bytes tensor_of(const std::string& name, std::size_t bytes) {
  Bytes tensor(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    tensor[i] = static_cast<std::byte>((i * 31 + i / 253 + name.back()) & 0xff);
  return tensor;
}

// What a node has, and what it is to get: as many bytes, still zero.
struct HeldTensors {
  std::map<std::string, Bytes> has, lacks;
  std::optional<int> from;

  NodeState state() const {
    NodeState state{.from = from};
    for (const auto& [name, tensor] : has) state.add_to_has(name, bytes_type(tensor.size()));
    for (const auto& [name, tensor] : lacks) state.add_to_wants(name, bytes_type(tensor.size()));
    return state;
  }
  StateAccess access() {
    return {.read =
                [this](const StateRange& range, std::span<std::byte> into) {
                  const Bytes& tensor = has.at(range.name);
                  read_range({bytes_type(tensor.size()), tensor.data()}, range, into);
                },
            .write =
                [this](const StateRange& range, std::span<const std::byte> from_there) {
                  Bytes& tensor = lacks.at(range.name);
                  write_range({bytes_type(tensor.size()), tensor.data()}, range, from_there);
                }};
  }
};

// Every node of the clusters; what each has then.
OfNodes<HeldTensors> transferred(const OfNodes<HeldTensors>& nodes) {
  std::vector<int> stages;
  for (const auto& cluster : nodes) stages.push_back(static_cast<int>(cluster.size()));
  return on_all<HeldTensors>(stages, [&](Agreement& agreement, int cluster) {
    HeldTensors own = nodes[cluster][agreement.stage()];
    transfer_state("state", own.state(), cluster, agreement, own.access());
    return own;
  });
}

RC_GTEST_PROP(StateTransfer, BringsWhatAnybodyHasToAllWhoLackIt, ()) {
  const auto clusters = *rc::gen::inRange<std::size_t>(1, 5);
  OfNodes<HeldTensors> nodes(clusters);
  for (auto& cluster : nodes) cluster.resize(*rc::gen::inRange<std::size_t>(1, 4));
  for (const std::string name : {"a", "b", "c", "d"}) {
    const auto bytes = *rc::gen::element<std::size_t>(1, 3, 1000, kCheckpointPieceBytes, kMostOfRange,
                                                      kMostOfRange + 1, 2 * kMostOfRange + 77);
    for (auto& cluster : nodes) {
      for (HeldTensors& node : cluster) {
        const int kind = *rc::gen::inRange(0, 3);
        if (kind == 0) node.has[name] = tensor_of(name, bytes);
        if (kind == 1) node.lacks[name] = Bytes(bytes);
      }
    }
  }
  for (auto& cluster : nodes)
    for (HeldTensors& node : cluster)
      if (*rc::gen::inRange(0, 3) == 0) node.from = *rc::gen::inRange(0, static_cast<int>(clusters));
  const auto after = transferred(nodes);
  for (std::size_t cluster = 0; cluster < clusters; ++cluster) {
    for (const HeldTensors& node : after[cluster]) {
      for (const auto& [name, tensor] : node.lacks) {
        const auto has = [name = name](const HeldTensors& each) { return each.has.contains(name); };
        const bool comes = node.from ? std::ranges::any_of(nodes[*node.from], has)
                                     : std::ranges::any_of(nodes, [&](const auto& each) {
                                         return std::ranges::any_of(each, has);
                                       });
        RC_ASSERT(tensor == (comes ? tensor_of(name, tensor.size()) : Bytes(tensor.size())));
      }
    }
  }
}

TEST(StateTransfer, OfARangeOfATensor) {
  const auto after = on_all<Bytes>({1, 2}, [](Agreement& agreement, int cluster) {
    HeldTensors own;
    if (cluster == 0) own.has["w"] = tensor_of("w", 100);
    if (cluster == 1 && agreement.stage() == 1) own.lacks["w"] = Bytes(100);
    NodeState state = own.state();
    if (!state.wants.empty()) state.wants = {{.name = "w", .begin = 40, .bytes = 7}};
    transfer_state("state", state, cluster, agreement, own.access());
    return own.lacks["w"];
  });
  const Bytes whole = tensor_of("w", 100);
  Bytes expected(100);
  std::copy_n(whole.begin() + 40, 7, expected.begin() + 40);
  EXPECT_EQ(after[1][1], expected);
}

// In the same ring at once: cluster 2 is given one cluster's tensor and cluster 3 another's of the same name.
TEST(StateTransfer, OfTwoClustersByTheSameRoots) {
  const auto after = on_all<Bytes>({1, 1, 1, 1}, [](Agreement& agreement, int cluster) {
    HeldTensors own;
    if (cluster < 2) own.has["w"] = Bytes(100, static_cast<std::byte>(cluster + 1));
    if (cluster >= 2) {
      own.lacks["w"] = Bytes(100);
      own.from = cluster - 2;
    }
    transfer_state("state", own.state(), cluster, agreement, own.access());
    return own.lacks["w"];
  });
  EXPECT_EQ(after[2][0], Bytes(100, std::byte{1}));
  EXPECT_EQ(after[3][0], Bytes(100, std::byte{2}));
}

// Two clusters of one node, joined by the Roots' ring, of which the second plays by rules of its own.
template <typename Other>
std::string error_of_the_first(const Other& other) {
  auto ring = make_memory_links(2, std::chrono::seconds(30));
  std::string message;
  const auto node = [&](int cluster, const auto& play) {
    return [&, cluster, play] {
      const auto alone = make_memory_links(1, std::chrono::seconds(30));
      ClusterRoots roots(*ring[cluster], cluster, 2);
      play(Agreement(*alone[0], 0, 1, &roots));
    };
  };
  std::jthread second(node(1, other));
  node(0, [&](const Agreement& agreement) {
    HeldTensors own{.has = {}, .lacks = {{"w", Bytes(100)}}, .from = 1};
    try {
      transfer_state("state", own.state(), 0, agreement, own.access());
    } catch (const Error& error) {
      message = error.what();
    }
  })();
  return message;
}

void offer(const Agreement& agreement, const std::string& name) {
  NodeState state;
  state.add_to_has(name, bytes_type(100));
  told_by_all_as(agreement, "what nodes have of state", state);
}

TEST(StateTransfer, ADamagedRangeIsNamed) {
  const std::string message = error_of_the_first([](const Agreement& agreement) {
    offer(agreement, "w");
    Bytes range = tensor_of("w", 100);
    range.resize(116, std::byte{'0'});  // no checksum of these bytes
    Pieces(agreement.roots()->link()).send(0, "state w of cluster 1 from byte 0", range);
  });
  EXPECT_EQ(message, "w came damaged from stage 0 of cluster 1: its checksum differs");
}

TEST(StateTransfer, ARangeOfAnotherSizeIsRefused) {
  const std::string message = error_of_the_first([](const Agreement& agreement) {
    offer(agreement, "w");
    Pieces(agreement.roots()->link()).send(0, "state w of cluster 1 from byte 0", tensor_of("w", 99));
  });
  EXPECT_THAT(message, HasSubstr("u8[99]"));
  EXPECT_THAT(message, HasSubstr("u8[116]"));
}

TEST(StateTransfer, WhoTellsNonsenseIsNamed) {
  const std::string message = error_of_the_first(
      [](const Agreement& agreement) { told_by_all(agreement, "what nodes have of state", "everything"); });
  EXPECT_THAT(message,
              HasSubstr("stage 0 of cluster 1 tells what nodes have of state that cannot be read: "));
}

}  // namespace
}  // namespace rookery
