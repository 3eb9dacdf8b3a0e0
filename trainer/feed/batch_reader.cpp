#include "trainer/feed/batch_reader.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/process/stop_signals.hpp"

namespace rookery {
namespace {

std::int64_t sample_bytes(const Dataset& dataset, const std::string& tensor) {
  const TensorType& type = dataset.tensors().at(tensor);
  return static_cast<std::int64_t>(TensorType{type.dtype, type.shape.with_batch(1)}.bytes());
}

// Where there are as many threads as processors or more, those of the arithmetic go first.
void give_way() {
  constexpr int kNiceness = 5;
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness);
}

}  // namespace

class BatchReader::Impl {
 public:
  Impl(const Dataset& dataset, const std::vector<std::string>& tensors, const ReadingSettings& settings,
       std::int64_t batch_size)
      : dataset_(dataset),
        prefetch_(settings.prefetch),
        piece_(std::min<std::int64_t>(dataset.samples_at_once(),
                                      1 + ((prefetch_ + 1) * batch_size - 1) / settings.readers)),
        slots_(static_cast<std::size_t>(prefetch_ + 1)) {
    for (Slot& slot : slots_) {
      for (const std::string& name : tensors) {
        const TensorType& type = dataset.tensors().at(name);
        slot.tensors.emplace(name, Tensor(type.dtype, type.shape.with_batch(batch_size)));
      }
    }
    for (int i = 0; i < settings.readers; ++i) readers_.emplace_back([this] { read(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      is_ended_ = true;
    }
    work_.notify_all();
    for (std::thread& reader : readers_) reader.join();
  }

  void start(Pass pass) {
    std::unique_lock lock(mutex_);
    const bool is_next = following_ && at_hand_ + 1 == first_following_ && is_same(*following_, pass);
    following_.reset();
    if (is_next) return;
    batches_.clear();  // nothing more of these is begun
    first_ = at_hand_ + 1;
    first_unread_ = {first_, {}};
    progress_.wait(lock, [&] { return being_read_ == 0; });
    for (Slot& slot : slots_) slot.forget();
    add(std::make_shared<const Pass>(std::move(pass)));
  }

  void follow(Pass pass) {
    const std::lock_guard lock(mutex_);
    following_ = std::make_shared<const Pass>(std::move(pass));
    first_following_ = end();
    add(following_);
  }

  void next(SampleRange batch) {
    std::unique_lock lock(mutex_);
    if (at_hand_ >= 0) slot_of(at_hand_).forget();
    ++at_hand_;
    ROOKERY_CHECK(at_hand_ < end() && batch_at(at_hand_).range == batch, "samples {} to {} are not the next",
                  batch.first, batch.first + batch.count);
    for (; first_ < at_hand_; ++first_) batches_.pop_front();
    work_.notify_all();
    Slot& slot = slot_of(at_hand_);
    const auto begin = std::chrono::steady_clock::now();
    while (slot.read < batch.count) {
      constexpr std::chrono::milliseconds kSignalsAreSeen{100};
      progress_.wait_for(lock, kSignalsAreSeen);
      throw_if_stopped();
    }
    waited_ += std::chrono::steady_clock::now() - begin;
    if (slot.problem) std::rethrow_exception(slot.problem);
  }

  std::span<const std::byte> samples(const std::string& name, SampleRange range) const {
    const Tensor& tensor = slots_[static_cast<std::size_t>(at_hand_) % slots_.size()].tensors.at(name);
    const auto each = static_cast<std::size_t>(sample_bytes(dataset_, name));
    return tensor.view().bytes().subspan(static_cast<std::size_t>(range.first) * each,
                                         static_cast<std::size_t>(range.count) * each);
  }

  double seconds_waited() const { return waited_.count(); }

 private:
  struct Slot {
    std::map<std::string, Tensor> tensors;
    std::int64_t read = 0;  // samples, of which some may have a problem
    std::exception_ptr problem;
    std::int64_t problem_at = 0;

    void forget() {
      read = 0;
      problem = nullptr;
    }
  };
  struct Batch {
    std::shared_ptr<const Pass> pass;
    SampleRange range;
  };
  // Samples of a batch.
  struct Piece {
    std::int64_t batch = 0;
    SampleRange range;
  };

  static bool is_same(const Pass& a, const Pass& b) {
    return a.batches == b.batches && a.epoch.has_value() == b.epoch.has_value() &&
           (!a.epoch || a.epoch->epoch == b.epoch->epoch) && *a.order == *b.order;
  }

  void add(const std::shared_ptr<const Pass>& pass) {
    for (const SampleRange range : pass->batches) batches_.push_back({pass, range});
    work_.notify_all();
  }
  std::int64_t end() const { return first_ + std::ssize(batches_); }
  const Batch& batch_at(std::int64_t i) const { return batches_[static_cast<std::size_t>(i - first_)]; }
  Slot& slot_of(std::int64_t batch) { return slots_[static_cast<std::size_t>(batch) % slots_.size()]; }

  void read() {
    give_way();
    std::unique_lock lock(mutex_);
    for (;;) {
      std::optional<Piece> piece;
      work_.wait(lock, [&] { return is_ended_ || (piece = take()); });
      if (is_ended_) return;
      ++being_read_;
      Slot& slot = slot_of(piece->batch);
      const Batch batch = batch_at(piece->batch);
      lock.unlock();
      std::exception_ptr problem;
      try {
        gather(slot, batch, piece->range);
      } catch (...) {
        problem = std::current_exception();
      }
      lock.lock();
      --being_read_;
      note(slot, *piece, problem);
      progress_.notify_all();
    }
  }

  static void note(Slot& slot, const Piece& piece, const std::exception_ptr& problem) {
    slot.read += piece.range.count;
    if (!problem || (slot.problem && slot.problem_at < piece.range.first)) return;
    slot.problem = problem;
    slot.problem_at = piece.range.first;
  }

  // The first samples that nobody has begun to read, in a batch for which there is room.
  std::optional<Piece> take() {
    auto& [batch, range] = first_unread_;
    while (batch < end() && batch <= at_hand_ + prefetch_) {
      const std::int64_t samples = batch_at(batch).range.count;
      if (range.first < samples) {
        const Piece piece{batch, {range.first, std::min(piece_, samples - range.first)}};
        range.first += piece.range.count;
        return piece;
      }
      ++batch;
      range.first = 0;
    }
    return std::nullopt;
  }

  void gather(Slot& slot, const Batch& batch, SampleRange range) const {
    const auto ids = std::span(*batch.pass->order)
                         .subspan(batch.range.first + range.first, static_cast<std::size_t>(range.count));
    for (auto& [name, tensor] : slot.tensors) {
      const auto each = static_cast<std::size_t>(sample_bytes(dataset_, name));
      const TensorType& type = dataset_.tensors().at(name);
      const TensorView into{{type.dtype, type.shape.with_batch(range.count)},
                            tensor.view().data + static_cast<std::size_t>(range.first) * each};
      if (batch.pass->epoch) {
        dataset_.gather_training(name, ids, *batch.pass->epoch, into);
      } else {
        dataset_.gather(name, ids, into);
      }
    }
  }

  const Dataset& dataset_;
  const std::int64_t prefetch_;
  const std::int64_t piece_;  // samples that a reader takes at once, so that none is left without
  std::mutex mutex_;          // of all that follows, but for tensors that a reader or the caller has
  std::condition_variable work_, progress_;
  std::deque<Batch> batches_;  // from the one at hand on
  std::int64_t first_ = 0;     // the number of its first one; they are counted up from pass to pass
  std::int64_t at_hand_ = -1;
  std::shared_ptr<const Pass> following_;
  std::int64_t first_following_ = 0;
  Piece first_unread_;
  int being_read_ = 0;
  bool is_ended_ = false;
  std::vector<Slot> slots_;  // batch i is in slot i modulo their number
  std::chrono::duration<double> waited_{};
  std::vector<std::thread> readers_;  // the last: they use all that is above
};

BatchReader::BatchReader(const Dataset& dataset, const std::vector<std::string>& tensors,
                         const ReadingSettings& settings, std::int64_t batch_size)
    : impl_(std::make_unique<Impl>(dataset, tensors, settings, batch_size)) {}
BatchReader::~BatchReader() = default;

std::int64_t BatchReader::bytes(const Dataset& dataset, const ReadingSettings& settings,
                                std::int64_t batch_size) {
  std::int64_t sample = 0;
  for (const auto& [name, type] : dataset.tensors()) sample += sample_bytes(dataset, name);
  return (settings.prefetch + 1) * batch_size * sample + settings.readers * dataset.bytes_per_reader();
}

void BatchReader::start(Pass pass) {
  impl_->start(std::move(pass));
}

void BatchReader::follow(Pass pass) {
  impl_->follow(std::move(pass));
}

void BatchReader::next(SampleRange batch) {
  impl_->next(batch);
}

std::span<const std::byte> BatchReader::samples(const std::string& name, SampleRange range) const {
  return impl_->samples(name, range);
}

double BatchReader::seconds_waited() const {
  return impl_->seconds_waited();
}

}  // namespace rookery
