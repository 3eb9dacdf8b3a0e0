#include "node/transport/threads/turn.hpp"

#include <utility>

namespace rookery {

void Turn::keep(const std::function<bool()>& work) {
  std::unique_lock turn(turn_);
  while (work()) {
    turn.unlock();
    stand_aside();
    turn.lock();
  }
}

void Turn::stand_aside() {
  std::unique_lock lock(aside_);
  for (std::uint64_t seen = visits_; is_visited_ || seen != visits_;) {
    is_awaited_ = true;
    left_.wait(lock, [&] { return !is_visited_; });
    is_awaited_ = false;
    if (std::exchange(is_passed_over_, false)) return;
    seen = visits_;
    left_.wait_for(lock, away_);
  }
}

void Turn::visit(const std::function<bool()>& work) {
  {
    const std::scoped_lock lock(aside_);
    if (is_visited_) {
      is_passed_over_ = true;
      return;
    }
    is_visited_ = true;
    ++visits_;
  }
  std::unique_lock turn(turn_);
  while (work()) continue;
  turn.unlock();
  const std::scoped_lock lock(aside_);
  is_visited_ = false;
  if (is_awaited_) left_.notify_one();
}

bool Turn::try_once(const std::function<void()>& work) {
  const std::unique_lock turn(turn_, std::try_to_lock);
  if (!turn) return false;
  work();
  return true;
}

void Turn::once(const std::function<void()>& work) {
  const std::scoped_lock turn(turn_);
  work();
}

void Turn::lend_during(const std::function<void()>& wait) {
  turn_.unlock();
  wait();
  turn_.lock();
}

}  // namespace rookery
