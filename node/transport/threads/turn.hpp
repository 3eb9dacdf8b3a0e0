// The turn decides which of several threads does a piece of work that only one may do at a time: the keeper,
// which does it all the time, or a guest, who does it himself while he would only wait for what it brings.
// That saves two changes of threads for every such wait. While the work itself waits for news, others may
// have the turn. Knows nothing of the work.
//
// `turn_` is held by whoever does the work, and all that the work touches is protected by it. `aside_`
// protects the members below it, and is never held while `turn_` is taken.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace rookery {

class Turn {
 public:
  // A guest who has left may come back within `away`: the keeper leaves the work alone for so long.
  explicit Turn(std::chrono::milliseconds away) : away_(away) {}

  // For the keeper: does the work again and again until it returns false. After each time it stands aside
  // while a guest has the turn, and for `away` after the last guest has left, unless another thread waits for
  // what the work brings, or has asked for it by a try that failed.
  void keep(const std::function<bool()>& work);

  // For a guest: takes the turn and does the work until it returns false; nothing. Where another guest has
  // it, returns at once: who is told of what the work brings waits for just that, and keeps what is returned
  // for as long.
  std::shared_ptr<void> visit(const std::function<bool()>& work);

  // For a guest: does the work once where nobody is at it; else false, and the keeper comes as soon as no
  // guest is here.
  bool try_once(const std::function<void()>& work);
  // Does it as soon as nobody is at it.
  void once(const std::function<void()>& work);

  // From within the work: others may have the turn until `wait` returns, which throws nothing.
  void lend_during(const std::function<void()>& wait);

 private:
  void stand_aside();
  bool is_wanted() const { return !is_visited_ && (waiting_ > 0 || is_asked_); }

  const std::chrono::milliseconds away_;
  std::mutex turn_;

  std::mutex aside_;
  std::condition_variable left_;  // the guest has given the turn back
  bool is_visited_ = false;       // by a guest, or soon
  int waiting_ = 0;               // guests who have found another one here
  bool is_asked_ = false;         // the keeper, by a try that failed
  bool is_awaited_ = false;       // by the keeper, that the guest leaves
  std::uint64_t visits_ = 0;
};

}  // namespace rookery
