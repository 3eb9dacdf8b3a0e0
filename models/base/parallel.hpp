// Loops whose rounds run on several threads at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace rookery {

// Both call `work`, which does not throw, once on each of up to `threads` threads at the same time, one of
// which is the calling one, and return when all are done. It gets the thread's number, from 0 on.
//
// Threads that live as long as the call, and sleep while they wait: for work of milliseconds and more.
void on_new_threads(int threads, const std::function<void(int member)>& work);
// Where there is OpenMP, its threads, which are oneDNN's, too. They stay for the next call, under the same
// numbers, and keep their processors for a while so that it begins at once: for work of microseconds, by
// programs that have these processors to themselves.
void on_team(int threads, const std::function<void(int member)>& work);

// The rounds of a loop, shared out among the members of a team: in their order, from one queue; or in parts,
// one for each member.
class SharedRounds {
 public:
  struct Run {
    std::int64_t begin, end;
  };

  SharedRounds(std::int64_t rounds, int members, int parts)
      : parts_(static_cast<std::size_t>(parts)), run_(std::max<std::int64_t>(1, rounds / (kRuns * members))) {
    for (std::int64_t i = 0; i < parts; ++i) {
      parts_[static_cast<std::size_t>(i)].next = rounds * i / parts;
      parts_[static_cast<std::size_t>(i)].end = rounds * (i + 1) / parts;
    }
  }

  // Of the member's part, then of what others have left of theirs; nothing when all are taken.
  std::optional<Run> take(int member) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[(static_cast<std::size_t>(member) + i) % parts_.size()];
      if (part.next.load(std::memory_order_relaxed) >= part.end) continue;
      const std::int64_t begin = part.next.fetch_add(run_, std::memory_order_relaxed);
      if (begin < part.end) return Run{begin, std::min(begin + run_, part.end)};
    }
    return std::nullopt;
  }

  void leave_out_the_rest() {
    for (Part& part : parts_) part.next = part.end;
  }

 private:
  // Of each member: what it takes at once is a share of what there is for it.
  static constexpr std::int64_t kRuns = 32;
  // Each in a line of the cache of its own.
  struct alignas(64) Part {
    std::atomic<std::int64_t> next;
    std::int64_t end;
  };
  std::vector<Part> parts_;
  std::int64_t run_;
};

// body(member, i) for all rounds that are left, on the threads of a team.
template <std::integral Index, typename Body>
void run_rounds(SharedRounds&& rounds, int members, const Body& body, decltype(on_new_threads)& on_threads) {
  std::exception_ptr error;
  std::mutex mutex;  // of the error
  on_threads(members, [&](int member) {
    if (member >= members) return;
    try {
      while (const auto run = rounds.take(member)) {
        for (std::int64_t i = run->begin; i < run->end; ++i) body(member, static_cast<Index>(i));
      }
    } catch (...) {
      const std::scoped_lock lock(mutex);
      if (!error) error = std::current_exception();
      rounds.leave_out_the_rest();
    }
  });
  if (error) std::rethrow_exception(error);
}

// body(i) for 0 <= i < count, begun in this order, on up to `threads` threads (0: one per processor). Throws
// the first exception that a body throws; rounds that nobody has begun by then are left out.
template <std::integral Index, typename Body>
void parallel_for(Index count, int threads, const Body& body,
                  decltype(on_new_threads)& on_threads = on_new_threads) {
  const auto rounds = static_cast<std::int64_t>(count);
  const std::int64_t wanted = threads > 0 ? threads : std::thread::hardware_concurrency();
  const auto members = static_cast<int>(std::min(wanted, rounds));
  if (members <= 1) {
    for (Index i = 0; i < count; ++i) body(i);
    return;
  }
  run_rounds<Index>(
      SharedRounds(rounds, members, 1), members, [&](int, Index i) { body(i); }, on_threads);
}

// body(member, i) for 0 <= i < count in no order, on a team of up to `threads` threads, whose numbers are
// below `threads` and `count`; exceptions as above. Each member begins with a part of the rounds that is the
// same in all loops of as many, so that it finds near it what it has written in one before.
template <std::integral Index, typename Body>
void parallel_for_members(Index count, int threads, const Body& body, decltype(on_team)& on_threads) {
  const auto rounds = static_cast<std::int64_t>(count);
  const auto members = static_cast<int>(std::min<std::int64_t>(threads, rounds));
  if (members <= 1) {
    for (Index i = 0; i < count; ++i) body(0, i);
    return;
  }
  run_rounds<Index>(SharedRounds(rounds, members, members), members, body, on_threads);
}

}  // namespace rookery
