// The turn decides which of several threads does a piece of work that only one may do at a time: the keeper,
// which does it all the time, or a guest, who does it himself while he would only wait for what it brings.
// That saves two changes of threads for every such wait. Knows nothing of the work.
//
// `turn_` is held by whoever does the work, and all that the work touches is protected by it. `aside_`
// protects the members below it, and is never held while `turn_` is taken.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

namespace rookery {

class Turn {
 public:
  // `interrupt` ends a wait inside the work; called by any thread, without the turn.
  explicit Turn(std::function<void()> interrupt) : interrupt_(std::move(interrupt)) {}

  // For the keeper: does the work again and again until it returns false. After each time it stands aside
  // while a guest has the turn, or comes back for it within a millisecond if nobody else waits.
  void keep(const std::function<bool()>& work);

  // For a guest: takes the turn and does the work until it returns false. Returns at once where another guest
  // has it: who is told of what the work brings can wait for just that.
  void visit(const std::function<bool()>& work);

  // For a guest: does the work once where nobody is at it; false otherwise.
  bool try_once(const std::function<void()>& work);

 private:
  void stand_aside();

  const std::function<void()> interrupt_;
  std::mutex turn_;

  std::mutex aside_;
  std::condition_variable left_;  // the guest has given the turn back
  bool is_visited_ = false;       // by a guest, or soon
  bool is_passed_over_ = false;   // a guest has found another one here, and waits
  bool is_awaited_ = false;       // by the keeper, that the guest leaves
  std::uint64_t visits_ = 0;
};

}  // namespace rookery
