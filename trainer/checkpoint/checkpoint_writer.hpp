// Writes a stage's parts of checkpoints, beside the training where there is memory for that, and puts them
// into a bucket.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "models/tensor/tensor.hpp"
#include "trainer/checkpoint/checkpoint_bucket.hpp"
#include "trainer/checkpoint/checkpoint_part.hpp"

namespace rookery {

// Used by one thread; another one, its own, may write. That a part cannot be written, or put into the bucket,
// is told in the log, and training goes on. Each call waits until the part before is written and put there.
class CheckpointWriter {
 public:
  // `bucket`: where each part is put as well, if anywhere, and as many stay as `keep` says.
  explicit CheckpointWriter(CheckpointOwner owner, std::optional<CheckpointBucket> bucket = std::nullopt,
                            int keep = 1);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  void write_now(const CheckpointFacts& facts, const std::map<std::string, TensorView>& training_state);
  // Copies the state, which takes as much memory again and keeps it, and writes the copy while the caller
  // goes on; where this machine has not that much left, it writes now.
  void write_beside(const CheckpointFacts& facts, const std::map<std::string, TensorView>& training_state);
  void finish();
  // With the next part, those in the bucket up to this step are removed that need not stay. After finish().
  void remove_up_to(std::int64_t uploaded_by_all) { uploaded_by_all_ = uploaded_by_all; }

  // The step of the newest part that this writer has brought to the disk. After finish().
  std::optional<std::int64_t> newest() const { return newest_; }
  // The same of the newest one in the bucket.
  std::optional<std::int64_t> newest_uploaded() const { return newest_uploaded_; }
  bool uploads() const { return bucket_.has_value(); }
  // Memory of the copies.
  std::int64_t bytes() const;

 private:
  bool can_copy(const std::map<std::string, TensorView>& training_state) const;
  void write(const CheckpointFacts& facts, const StateViews& training_state);
  void upload(std::int64_t step);

  const CheckpointOwner owner_;
  const std::optional<CheckpointBucket> bucket_;
  const int keep_;
  StateDict copies_;
  std::jthread thread_;
  std::optional<std::int64_t> newest_, newest_uploaded_, uploaded_by_all_;
};

}  // namespace rookery
