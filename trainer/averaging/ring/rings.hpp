// The rings that a stage is in. Each has a thread of its own, so that all go at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/averaging/ring/ring_all_reduce.hpp"
#include "trainer/link.hpp"

namespace rookery {

// A stage's place in a ring; its rank is its cluster.
struct RingMember {
  int id = 0;
  // Parameters, and buffers that training changes, by global name, in the order of the graph: the same on all
  // members. They are f32.
  std::vector<std::string> tensors;
  Link* link = nullptr;  // the ring's; used by the ring's thread alone
  std::uint64_t under_way = kRingUnderWay;
};

// One thread, beside the rings' own.
class Rings {
 public:
  // The links outlive it.
  Rings(std::vector<RingMember> members, int cluster, int clusters, const Compression& compression = {});
  // As abandon().
  ~Rings();
  Rings(const Rings&) = delete;
  Rings& operator=(const Rings&) = delete;

  const std::vector<RingMember>& members() const { return members_; }

  // Begins a round, when the one before is finished: RingAllReduce::sum() in all rings; numbers of rounds
  // rise. `tensors_of` gives those of a ring, of the same sizes and in the same order on all members; what
  // they lie in is left alone until the round is finished.
  using TensorsOf = std::function<std::vector<RingTensor>(const RingMember&)>;
  void begin(std::int64_t round, const TensorsOf& tensors_of);
  // A tensor of a ring's that was not ready is there now.
  void announce(std::size_t ring, std::size_t tensor);
  // Waits until it is done. Throws what went wrong first, "ring 3: round 41: " before it; a ring that still
  // goes on then has the use of its numbers until abandon().
  void finish();
  // Waits until no ring has the use of numbers any more, without tensors that were not announced: where links
  // have failed that is soon. Nothing may be begun then.
  void abandon();

  std::int64_t rounds() const { return rounds_; }
  // Seconds from the beginning of rounds to when their slowest rings were done, and those of them that
  // finish() has waited, in all.
  double seconds() const { return seconds_; }
  double waited_seconds() const { return waited_seconds_; }
  // To the next member, by ring.
  std::vector<std::uint64_t> bytes_sent() const;

 private:
  class Worker;
  struct Meeting;  // what its threads and the caller wait by

  const std::vector<RingMember> members_;
  std::unique_ptr<Meeting> meeting_;
  std::vector<std::unique_ptr<Worker>> workers_;  // by member; end first
  std::int64_t rounds_ = 0;
  std::chrono::steady_clock::time_point begun_;  // the newest of them
  double seconds_ = 0;
  double waited_seconds_ = 0;
};

}  // namespace rookery
