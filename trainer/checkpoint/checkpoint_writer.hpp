// Writes a stage's parts of checkpoints, beside the training where there is memory for that, and puts them
// into a bucket.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "models/tensor/tensor.hpp"
#include "trainer/checkpoint/checkpoint_bucket.hpp"
#include "trainer/checkpoint/checkpoint_part.hpp"

namespace rookery {

// That a part is put into the bucket as well.
struct CheckpointUpload {
  // Of those there up to this step, of which all nodes have theirs, as many stay as the writer keeps.
  std::optional<std::int64_t> whole;
};

// Used by one thread; of its own threads one may write, and one may put what was written into the bucket.
// That either fails is told in the log, and training goes on. Each call waits until the part before is
// written.
class CheckpointWriter {
 public:
  // `keep`: in the bucket, if there is one.
  explicit CheckpointWriter(CheckpointOwner owner, std::optional<CheckpointBucket> bucket = std::nullopt,
                            int keep = 1);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // It lies on the disk then; it goes to the bucket after what is under way there.
  void write_now(const CheckpointFacts& facts, const std::map<std::string, TensorView>& training_state,
                 const std::optional<CheckpointUpload>& upload = std::nullopt);
  // Copies the state, which takes as much memory again and keeps it, and writes the copy while the caller
  // goes on; where this machine has not that much left, it writes now.
  void write_beside(const CheckpointFacts& facts, const std::map<std::string, TensorView>& training_state,
                    const std::optional<CheckpointUpload>& upload = std::nullopt);
  void finish();
  // Until what was put into the bucket is there, or could not be.
  void finish_upload();

  // The step of the newest part that this writer has brought to the disk. After finish().
  std::optional<std::int64_t> newest() const { return newest_; }

  bool has_bucket() const { return bucket_.has_value(); }
  // Whether nothing is on its way to the bucket, or not after so long. After finish().
  bool is_uploaded_within(std::chrono::seconds patience) const;
  // The step whose part is on its way there. After finish().
  std::optional<std::int64_t> under_way() const;
  // That of the newest part there. After is_uploaded_within().
  std::optional<std::int64_t> newest_uploaded() const { return newest_uploaded_; }

  // Memory of the copies.
  std::int64_t bytes() const;

 private:
  bool can_copy(const std::map<std::string, TensorView>& training_state) const;
  void write(const CheckpointFacts& facts, const StateViews& training_state,
             const std::optional<CheckpointUpload>& upload);
  void begin_upload(std::int64_t step, const CheckpointUpload& upload);
  void put_into_bucket(std::int64_t step, const CheckpointUpload& upload);

  const CheckpointOwner owner_;
  const std::optional<CheckpointBucket> bucket_;
  const int keep_;
  StateDict copies_;
  std::jthread thread_;
  std::optional<std::int64_t> newest_, newest_uploaded_;
  std::optional<std::int64_t> last_upload_;
  std::future<void> upload_;  // of that; its destructor waits
};

}  // namespace rookery
