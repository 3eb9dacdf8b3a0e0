#include "node/transport/threads/turn.hpp"

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
    seen = visits_;
    if (left_.wait_for(lock, away_, [&] { return is_wanted(); })) break;
  }
  is_asked_ = false;  // the work that follows sees to it
}

std::shared_ptr<void> Turn::visit(const std::function<bool()>& work) {
  {
    const std::scoped_lock lock(aside_);
    if (is_visited_) {
      ++waiting_;
      return {static_cast<void*>(this), [this](void*) {
                const std::scoped_lock again(aside_);
                --waiting_;
              }};
    }
    is_visited_ = true;
    ++visits_;
  }
  std::unique_lock turn(turn_);
  while (work()) continue;
  turn.unlock();
  const std::scoped_lock lock(aside_);
  is_visited_ = false;
  if (is_awaited_ || is_wanted()) left_.notify_one();
  return nullptr;
}

bool Turn::try_once(const std::function<void()>& work) {
  if (const std::unique_lock turn(turn_, std::try_to_lock); turn) {
    work();
    return true;
  }
  const std::scoped_lock lock(aside_);
  is_asked_ = true;
  if (is_wanted()) left_.notify_one();
  return false;
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
