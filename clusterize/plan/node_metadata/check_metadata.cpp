#include "clusterize/plan/node_metadata/check_metadata.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/base/libraries/format.hpp"
#include "trainer/schedule/machine_order.hpp"
#include "trainer/settings/batch_sizes.hpp"

namespace rookery {
namespace {

// The first two of which neither can open a connection to the other.
std::optional<std::pair<std::string, std::string>> unreachable_pair(const std::vector<PeerInfo>& members) {
  const auto is_unreachable = [](const PeerInfo& member) { return !member.reachable; };
  const auto first = std::ranges::find_if(members, is_unreachable);
  if (first == members.end()) return std::nullopt;
  const auto second = std::find_if(first + 1, members.end(), is_unreachable);
  if (second == members.end()) return std::nullopt;
  return std::pair(first->node, second->node);
}

void check_members(const NodeMetadata& metadata, std::string_view file) {
  if (std::ssize(metadata.members) != metadata.stages)
    fail_metadata(file, "members: there are {} for {} stages", metadata.members.size(), metadata.stages);
  std::set<std::string> nodes;
  std::set<std::string> addresses;
  for (std::size_t i = 0; i < metadata.members.size(); ++i) {
    const PeerInfo& member = metadata.members[i];
    if (member.stage != static_cast<int>(i))
      fail_metadata(file, "members/{}/stage: {} is not {}", i, member.stage, i);
    if (!nodes.insert(member.node).second) fail_metadata(file, "members: {} is there twice", member.node);
    if (!addresses.insert(member.address).second)
      fail_metadata(file, "members: the address {} is there twice", member.address);
  }
  if (const auto apart = unreachable_pair(metadata.members)) {
    fail_metadata(file, "members: neither {} nor {} can be reached by the other", apart->first,
                  apart->second);
  }
  const PeerInfo& self = metadata.members[metadata.stage];
  if (self.node != metadata.node || self.address != metadata.address) {
    fail_metadata(file, "members/{}: {} ({}) is not this node, {} ({})", metadata.stage, self.node,
                  self.address, metadata.node, metadata.address);
  }
}

// Where machines have several stages each is a node, whose name says which stage of which machine it is.
void check_placement(const NodeMetadata& metadata, std::string_view file) {
  const ScheduleSettings& schedule = metadata.settings.schedule;
  if (stages_within(schedule, metadata.stages) != metadata.stages)
    fail_metadata(file, "stages: {} are not {} on each of several machines, as schedule \"{}\" has them",
                  metadata.stages, chunks_of(schedule), schedule.name);
  const StagePlacement placement = placement_of(schedule, metadata.stages);
  for (int stage = 0; stage < metadata.stages; ++stage) {
    const auto first = static_cast<std::size_t>(placement.stage_of(placement.machine_of(stage), 0));
    const std::string& node = metadata.members[static_cast<std::size_t>(stage)].node;
    const std::string expected =
        node_of_machine(machine_of_node(metadata.members[first].node), placement.chunk_of(stage));
    if (node != expected)
      fail_metadata(file, "members/{}/node: {} is not {}, which schedule \"{}\" has there", stage, node,
                    expected, schedule.name);
  }
}

// In rings only neighbours connect.
std::optional<std::pair<std::string, std::string>> unreachable_neighbours(
    const std::vector<PeerInfo>& peers) {
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const PeerInfo& next = peers[(i + 1) % peers.size()];
    if (peers.size() > 1 && !peers[i].reachable && !next.reachable)
      return std::pair(peers[i].node, next.node);
  }
  return std::nullopt;
}

// One node of every cluster, by cluster, of which `self` is this one's.
void check_ring(const NodeMetadata& metadata, const std::vector<PeerInfo>& peers, const PeerInfo& self,
                const std::string& key, std::string_view file) {
  if (std::ssize(peers) != metadata.clusters)
    fail_metadata(file, "{}: there are {} for {} clusters", key, peers.size(), metadata.clusters);
  const PeerInfo& own = peers[metadata.cluster];
  if (own != self) fail_metadata(file, "{}/{}: {} is not {}", key, metadata.cluster, own.node, self.node);
  std::set<std::string> nodes;
  for (const PeerInfo& peer : peers) {
    if (!nodes.insert(peer.node).second) fail_metadata(file, "{}: {} is there twice", key, peer.node);
  }
  if (const auto apart = unreachable_neighbours(peers)) {
    fail_metadata(file, "{}: {} and {} are neighbours, and neither can be reached by the other", key,
                  apart->first, apart->second);
  }
}

void check_shares(const NodeMetadata& metadata, std::string_view file) {
  const std::vector<std::int64_t>& shares = metadata.shares.samples;
  if (std::ssize(shares) != metadata.clusters)
    fail_metadata(file, "shares: there are {} for {} clusters", shares.size(), metadata.clusters);
  const std::int64_t most = metadata.settings.batch_size;
  for (std::size_t i = 0; i < shares.size(); ++i)
    if (shares[i] > most)
      fail_metadata(file, "shares/{}: {} is more than batch_size, {}", i, shares[i], most);
}

void check_rings(const NodeMetadata& metadata, std::string_view file) {
  const PeerInfo& self = metadata.members[metadata.stage];
  for (const auto& [id, ring] : metadata.rings) {
    check_ring(metadata, ring.peers, self, fmt::format("rings/{}/peers", id), file);
    if (metadata.clusters > 1 && id >= metadata.ring_count)
      fail_metadata(file, "rings: {} is not below {}, the number of rings", id, metadata.ring_count);
  }
  if (metadata.clusters == 1) return;
  check_shares(metadata, file);
  check_ring(metadata, metadata.roots, metadata.members.front(), "roots", file);
  for (const PeerInfo& root : metadata.roots) {
    if (root.stage != 0) fail_metadata(file, "roots: {} is stage {}", root.node, root.stage);
  }
}

void check_routing(const NodeMetadata& metadata, std::string_view file) {
  const auto check = [&](std::string_view list, const std::string& value, int stage, bool earlier) {
    const bool fits = earlier ? stage < metadata.stage : stage > metadata.stage && stage < metadata.stages;
    if (stage != kNoStage && !fits)
      fail_metadata(file, "{}: '{}' cannot come from or go to stage {}", list, value, stage);
  };
  for (const StageInput& input : metadata.inputs) {
    check("inputs", input.value, input.from, true);
    check("inputs", input.value, input.gradient_to, true);
    check("inputs", input.value, input.gradient_from, false);
  }
  for (const StageOutput& output : metadata.outputs) {
    for (const int stage : output.to) check("outputs", output.value, stage, false);
    check("outputs", output.value, output.gradient_from, false);
  }
  std::set<std::string> parameters;
  for (const SharedParameter& shared : metadata.shared) {
    check("shared_parameters", shared.parameter, shared.from, true);
    check("shared_parameters", shared.parameter, shared.gradient_to, true);
    check("shared_parameters", shared.parameter, shared.to, false);
    check("shared_parameters", shared.parameter, shared.gradient_from, false);
    if (!parameters.insert(shared.parameter).second)
      fail_metadata(file, "shared_parameters: '{}' is there twice", shared.parameter);
    if (shared.from == kNoStage && (shared.to == kNoStage || shared.gradient_to != kNoStage)) {
      fail_metadata(
          file,
          "shared_parameters: '{}' comes from nobody: then its value goes to somebody, and its gradient to "
          "nobody",
          shared.parameter);
    }
  }
}

// By stage, as the schedule has them.
std::vector<int> scheduled_in_flight(const NodeMetadata& metadata) {
  const ScheduleSettings& schedule = metadata.settings.schedule;
  const std::vector<std::int64_t> sizes = micro_batch_sizes(metadata.settings, metadata.settings.batch_size);
  std::vector<int> numbers;
  for (int stage = 0; stage < metadata.stages; ++stage)
    numbers.push_back(in_flight(schedule, stage, metadata.stages, static_cast<int>(sizes.size())));
  return numbers;
}

// None where a Rookery wrote the file that did not choose.
void check_in_flight(const NodeMetadata& metadata, std::string_view file) {
  const std::vector<int>& planned = metadata.settings.schedule.planned;
  if (planned.empty()) return;
  if (std::ssize(planned) != metadata.stages)
    fail_metadata(file, "in_flight: there are {} for {} stages", planned.size(), metadata.stages);
  // By the first of them machines that run several stages have their order, which decides the others.
  if (has_chunks(metadata.settings.schedule)) {
    const std::vector<int> scheduled = scheduled_in_flight(metadata);
    if (planned != scheduled)
      fail_metadata(file, "in_flight: [{}] is not [{}], which schedule \"{}\" has", fmt::join(planned, ", "),
                    fmt::join(scheduled, ", "), metadata.settings.schedule.name);
    return;
  }
  if (!std::ranges::is_sorted(planned, std::greater<>()))
    fail_metadata(file, "in_flight: [{}] rises, with which stages would wait for each other",
                  fmt::join(planned, ", "));
}

void check_updates_ahead(const NodeMetadata& metadata, std::string_view file) {
  if (!metadata.settings.schedule.updates_ahead) return;
  if (metadata.clusters > 1)
    fail_metadata(file, "updates_ahead: there are {} clusters, which cannot take updates back",
                  metadata.clusters);
  if (!metadata.shared.empty())
    fail_metadata(file, "updates_ahead: '{}' is used by several stages, which cannot take updates back",
                  metadata.shared.front().parameter);
}

// Of the cluster and of this node in it.
void check_numbers(const NodeMetadata& metadata, std::string_view file) {
  if (metadata.stage >= metadata.stages)
    fail_metadata(file, "stage: {} is not below {}, the number of stages", metadata.stage, metadata.stages);
  if (metadata.cluster >= metadata.clusters)
    fail_metadata(file, "cluster: {} is not below {}, the number of clusters", metadata.cluster,
                  metadata.clusters);
}

}  // namespace

void check_metadata(const NodeMetadata& metadata, std::string_view file) {
  check_numbers(metadata, file);
  check_members(metadata, file);
  check_placement(metadata, file);
  check_in_flight(metadata, file);
  check_updates_ahead(metadata, file);
  check_rings(metadata, file);
  check_routing(metadata, file);
}

}  // namespace rookery
