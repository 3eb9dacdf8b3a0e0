#include "trainer/averaging/ring/rings.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/averaging/ring/ring_all_reduce.hpp"
#include "trainer/timer.hpp"

namespace rookery {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

// A ring's thread, which makes one round at a time.
class Rings::Worker {
 public:
  // The condition is told when a round begins or ends; it and the mutex outlive the worker.
  Worker(const RingMember& member, int cluster, int clusters, const Compression& compression,
         std::mutex& mutex, std::condition_variable& changed)
      : ring_(*member.link, cluster, clusters, compression, member.under_way),
        id_(member.id),
        mutex_(mutex),
        changed_(changed),
        thread_([this](const std::stop_token& stop) { work(stop); }) {}

  // For a constructor of Rings that cannot start them all: no other destructor finds a thread that waits.
  ~Worker() {
    {
      const std::scoped_lock lock(mutex_);
      thread_.request_stop();
    }
    changed_.notify_all();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // What stands below belongs to the caller, who holds the mutex, and tells the condition.
  struct Round {
    std::int64_t number = 0;
    std::vector<RingTensor> tensors;
  };
  void begin(Round round) {
    round_ = std::move(round);
    announced_.assign(round_->tensors.size(), false);
  }
  void announce(std::size_t tensor) { announced_.at(tensor) = true; }
  void request_stop() { thread_.request_stop(); }
  bool is_done() const { return !round_; }
  Clock::time_point done() const { return done_; }
  void rethrow() {
    if (error_) std::rethrow_exception(error_);
  }
  bool has_failed() const { return error_ != nullptr; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stop.stop_requested() || round_; });
      if (!round_) return;
      const Round& round = *round_;
      lock.unlock();
      std::exception_ptr error;
      try {
        with_context(fmt::format("ring {}: round {}", id_, round.number), [&] {
          ring_.sum(round.number, round.tensors, [&](std::size_t tensor) { await(stop, tensor); });
        });
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      error_ = error;
      bytes_sent_ = ring_.bytes_sent();
      done_ = Clock::now();
      if (!error) round_.reset();
      changed_.notify_all();
      if (error) return;
    }
  }

  void await(const std::stop_token& stop, std::size_t tensor) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stop.stop_requested() || announced_[tensor]; });
    if (!announced_[tensor]) throw TransportError("the step was not finished");
  }

  RingAllReduce ring_;
  const int id_;
  std::mutex& mutex_;
  std::condition_variable& changed_;
  std::optional<Round> round_;   // begun
  std::vector<bool> announced_;  // of its tensors
  std::exception_ptr error_;
  std::uint64_t bytes_sent_ = 0;
  Clock::time_point done_;  // the newest round
  std::jthread thread_;     // ends first
};

struct Rings::Meeting {
  std::mutex mutex;
  std::condition_variable changed;
};

Rings::Rings(std::vector<RingMember> members, int cluster, int clusters, const Compression& compression)
    : members_(std::move(members)), meeting_(std::make_unique<Meeting>()) {
  for (const RingMember& member : members_)
    workers_.push_back(
        std::make_unique<Worker>(member, cluster, clusters, compression, meeting_->mutex, meeting_->changed));
}

Rings::~Rings() {
  abandon();
}

void Rings::begin(std::int64_t round, const TensorsOf& tensors_of) {
  const std::scoped_lock lock(meeting_->mutex);
  ++rounds_;
  begun_ = Clock::now();
  for (std::size_t i = 0; i < workers_.size(); ++i)
    workers_[i]->begin({.number = round, .tensors = tensors_of(members_[i])});
  meeting_->changed.notify_all();
}

void Rings::announce(std::size_t ring, std::size_t tensor) {
  const std::scoped_lock lock(meeting_->mutex);
  workers_[ring]->announce(tensor);
  meeting_->changed.notify_all();
}

void Rings::abandon() {
  std::unique_lock lock(meeting_->mutex);
  for (const auto& worker : workers_) worker->request_stop();
  meeting_->changed.notify_all();
  meeting_->changed.wait(lock, [&] {
    return std::ranges::all_of(workers_,
                               [](const auto& worker) { return worker->is_done() || worker->has_failed(); });
  });
}

void Rings::finish() {
  const Timer timer(waited_seconds_);
  std::unique_lock lock(meeting_->mutex);
  meeting_->changed.wait(lock, [&] {
    return std::ranges::any_of(workers_, [](const auto& worker) { return worker->has_failed(); }) ||
           std::ranges::all_of(workers_, [](const auto& worker) { return worker->is_done(); });
  });
  Clock::time_point done = begun_;
  for (const auto& worker : workers_) {
    worker->rethrow();
    done = std::max(done, worker->done());
  }
  seconds_ += std::chrono::duration<double>(done - begun_).count();
}

std::vector<std::uint64_t> Rings::bytes_sent() const {
  const std::scoped_lock lock(meeting_->mutex);
  std::vector<std::uint64_t> bytes;
  for (const auto& worker : workers_) bytes.push_back(worker->bytes_sent());
  return bytes;
}

}  // namespace rookery
