#include "node/run/ring_groups.hpp"

#include <chrono>
#include <map>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "node/run/link_options.hpp"
#include "node/wire/stream.hpp"
#include "trainer/checkpoint/reshard/pieces.hpp"

namespace rookery {
namespace {

// What Roots tell each other is a few numbers at a time, but for parts of checkpoints before they train.
constexpr std::uint64_t kMostOfNumbers = kCheckpointPieceBytes;
constexpr std::uint64_t kNumbersBudget = 1U << 20;

GroupOptions options_of(const NodeOptions& options, const NodeMetadata& metadata,
                        const std::vector<PeerInfo>& members) {
  GroupOptions made;
  for (const PeerInfo& member : members) made.members.push_back(member.node);
  made.topology = Topology::kRing;
  made.priority = kRingPriority;
  made.wait_for_peers = options.wait_for_peers;
  made.deadline = longest_wait(metadata);
  return made;
}

}  // namespace

std::vector<NodeRing> rings_of(const NodeMetadata& metadata, const Stage& stage) {
  std::vector<NodeRing> rings;
  if (metadata.clusters == 1) return rings;
  std::map<std::string, NodeRing> unused;  // by first parameter
  for (const auto& [id, ring] : metadata.rings) {
    unused[ring.first_parameter] = {.id = id,
                                    .name = fmt::format("ring {}", id),
                                    .members = ring.peers,
                                    .under_way = ring.under_way.value_or(kRingUnderWay)};
  }
  const auto fail = [&](const std::string& what) {
    throw ConfigError(fmt::format(
        "{}: {}: copy node_data from the same clusterize run to every machine, or run clusterize again",
        metadata.node, what));
  };
  for (const ValueId id : stage.owned_averaged_values()) {
    const std::string& name = stage.graph.value(id).name;
    if (const auto ring = unused.extract(name)) rings.push_back(std::move(ring.mapped()));
    if (rings.empty()) fail(fmt::format("its first parameter '{}' is in none of its rings", name));
    rings.back().parameters.push_back(name);
    const Value& value = stage.graph.value(id);
    RingLoad& load =
        value.kind == ValueKind::kParameter ? rings.back().load.parameters : rings.back().load.buffers;
    load.numbers += value.type.bytes() / sizeof(float);
    ++load.tensors;
  }
  if (!unused.empty()) {
    fail(fmt::format("its {} begins with '{}', which its stage does not own", unused.begin()->second.name,
                     unused.begin()->first));
  }
  return rings;
}

GroupOptions ring_options(const NodeOptions& options, const NodeMetadata& metadata, const NodeRing& ring) {
  GroupOptions made = options_of(options, metadata, ring.members);
  made.group = ring_group(ring.id);
  made.name = ring.name;
  const RingTraffic traffic = round_traffic(metadata.settings, ring.load, metadata.clusters, ring.under_way);
  made.max_message_bytes = traffic.message_bytes;
  made.send_budget = made.receive_budget =
      traffic.messages * message_cost(traffic.message_bytes, kMaxChunkBytes);
  // Those that begin here; the others are handed on in the memory that they came in.
  made.buffers = BufferPool(std::vector<std::uint64_t>(traffic.messages, traffic.message_bytes));
  made.keeps_arrivals = true;
  return made;
}

std::optional<GroupOptions> roots_options(const NodeOptions& options, const NodeMetadata& metadata) {
  if (metadata.clusters == 1 || metadata.stage != 0) return std::nullopt;
  GroupOptions made = options_of(options, metadata, metadata.roots);
  made.group = roots_group(metadata);
  made.name = "the Roots' ring";
  made.max_message_bytes = kMostOfNumbers;
  made.send_budget = made.receive_budget = kNumbersBudget;
  return made;
}

}  // namespace rookery
