#include "trainer/checkpoint/reshard/state_transfer.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/io/checkpoint/checked_file.hpp"
#include "trainer/checkpoint/reshard/pieces.hpp"

namespace rookery {
namespace {

constexpr std::size_t kChecksumBytes = 16;  // digits, which follow a range's bytes

void put_checksum(std::span<const std::byte> bytes, std::span<std::byte> into) {
  const std::string digits = checksum(ConstTensorView{{DType::kU8, Shape{std::ssize(bytes)}}, bytes.data()});
  std::ranges::copy(std::as_bytes(std::span(digits)), into.begin());
}

// One range, on one of the nodes that it goes by.
void move_along(const StateRoute& route, const RouteHop& hop, NodePlace own, const std::string& name,
                const Agreement& agreement, const StateAccess& access) {
  if (!hop.from && hop.to.empty()) return;
  const auto link = [&](const RouteHop::Peer& peer) {
    return Pieces(peer.is_root ? agreement.roots()->link() : agreement.link());
  };
  std::vector<std::byte> message(route.range.bytes + kChecksumBytes);
  const std::span<std::byte> bytes = std::span(message).first(route.range.bytes);
  const std::span<std::byte> sum = std::span(message).last(kChecksumBytes);
  if (hop.from) {
    link(*hop.from).receive(hop.from->rank, name, message);
  } else {
    access.read(route.range, bytes);
    put_checksum(bytes, sum);
  }
  for (const RouteHop::Peer& to : hop.to) link(to).send(to.rank, name, message);
  if (std::ranges::find(route.to, own) == route.to.end()) return;
  std::array<std::byte, kChecksumBytes> sum_here;
  put_checksum(bytes, sum_here);
  if (!std::ranges::equal(sum_here, sum)) {
    throw DataError(fmt::format("{} came damaged from stage {} of cluster {}: its checksum differs",
                                route.range.name, route.from.stage, route.from.cluster));
  }
  access.write(route.range, bytes);
}

TensorType bytes_type(const StateRange& range) {
  return {DType::kU8, Shape{static_cast<std::int64_t>(range.bytes)}};
}

}  // namespace

void read_range(ConstTensorView tensor, const StateRange& range, std::span<std::byte> into) {
  const TensorType type = bytes_type(range);
  copy(ConstTensorView{type, tensor.data + range.begin, tensor.device}, {type, into.data()});
}

void write_range(TensorView tensor, const StateRange& range, std::span<const std::byte> from) {
  const TensorType type = bytes_type(range);
  copy(ConstTensorView{type, from.data()}, {type, tensor.data + range.begin, tensor.device});
}

// All take part in the routes in the same order, so that no two wait for each other.
void transfer_state(const std::string& name, const NodeState& own, int cluster, const Agreement& agreement,
                    const StateAccess& access) {
  const OfNodes<NodeState> all = told_by_all_as(agreement, fmt::format("what nodes have of {}", name), own);
  const NodePlace place{.cluster = cluster, .stage = agreement.stage()};
  for (const StateRoute& route : state_routes(all)) {
    // Two clusters' ranges may go by the same Roots.
    const std::string key = fmt::format("{} {} of cluster {} from byte {}", name, route.range.name,
                                        route.from.cluster, route.range.begin);
    const RouteHop hop = hop_of(route, place, static_cast<int>(all.size()));
    move_along(route, hop, place, key, agreement, access);
  }
}

}  // namespace rookery
