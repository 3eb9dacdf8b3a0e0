// The sum of tensors over the members of a ring, on each of them: a reduce-scatter and an all-gather
// (Patarasuk, Yuan, Bandwidth optimal all-reduce algorithms, 2009), by which each member sends 2 (C - 1) / C
// of the bytes.
//
// Each tensor is cut into C parts at places that follow from its elements and C alone. Part s is added
// up beginning with member s, then s + 1 and so on, modulo C. So the order in which members are added to an
// element is the same whatever else is summed with it, in how many rings, and in what pieces it travels.
//
// The parts s of all tensors, the last first, as backward makes gradients, are strip s. It travels in
// pieces: piece p makes 2 (C - 1) hops, each to the next member, as C strips do at the same time; hop h of
// piece p belongs to tick p + h · D, and all members send and receive in the order of ticks. D ticks lie
// between sending a piece and the next member's sending it on, while it is on its way. What may be under way
// is what 2 D ticks bring, since the credit for it comes the same way back.
//
// Tensors may travel encoded (codec.hpp). Then a member encodes each sum that it has added to, and what that
// has lost is the member's residual, which it adds the next time (error feedback: Karimireddy and others,
// arXiv 1901.09847); the last sum is encoded, too, and all take what comes of it. Blocks begin with a
// tensor's part, so all this is the same in other rings as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "models/tensor/tensor.hpp"
#include "trainer/encoding/codec.hpp"
#include "trainer/link.hpp"

namespace rookery {

// What is under way on every link, in bytes, where nothing else is planned: fills 1 Gbit/s with 20 ms there
// and back. All members of a ring have the same.
constexpr std::uint64_t kRingUnderWay = 4U << 20;

// The traffic that a link of a ring has to take, so that members never wait for each other: the largest
// message in bytes, and the most messages under way.
struct RingTraffic {
  std::uint64_t message_bytes = 0;
  std::uint64_t messages = 0;

  // The buffers of messages that begin at a member and of those that have come to it.
  std::uint64_t buffer_bytes() const { return 2 * messages * message_bytes; }
};
// The size of one sum: its numbers, and the tensors that they are in.
struct RingLoad {
  std::uint64_t numbers = 0;
  std::size_t tensors = 0;
};
// The traffic of rounds over `encoded` numbers and `plain` ones, which travel as they are.
RingTraffic ring_traffic(const RingLoad& plain, const RingLoad& encoded, const Compression& compression,
                         int members, std::uint64_t under_way = kRingUnderWay);
// The bytes that each member sends in such a round, on the average.
double ring_bytes(const RingLoad& plain, const RingLoad& encoded, const Compression& compression,
                  int members);

struct RingTensor {
  std::span<float> numbers;
  std::span<float> residual = {};  // as many; empty: it travels as it is
  float factor = 1;                // of this member's numbers
  bool is_ready = true;            // false: they are not there yet
};

// One thread; the link outlives it.
class RingAllReduce {
 public:
  // Members send to the next rank alone, and the last one to the first. All have the same compression.
  RingAllReduce(Link& link, int rank, int members, const Compression& compression = {},
                std::uint64_t under_way = kRingUnderWay);

  // Replaces each number by the sum over the members of their factor times theirs. All call it with tensors
  // of the same sizes, in the same order; `round` is used once on a link. Throws what the Link throws: then
  // the tensors hold anything. Before a tensor that is not ready is touched, await(its number) waits for it;
  // the last one is needed first.
  using Await = std::function<void(std::size_t tensor)>;
  void sum(std::int64_t round, std::span<const RingTensor> tensors, const Await& await = nullptr);

  // To the next member, of all rounds.
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  Link& link_;
  const int rank_, members_;
  const std::uint64_t under_way_;
  const std::unique_ptr<Codec> codec_;
  std::uint64_t bytes_sent_ = 0;
};

// The elements of a tensor of so many that belong to a part: from the first number up to the second.
std::pair<std::size_t, std::size_t> ring_part(std::size_t elements, int part, int members);

}  // namespace rookery
