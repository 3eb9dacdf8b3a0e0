// Writes a stage's parts of checkpoints, beside the training where there is memory for that.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "models/tensor/tensor.hpp"
#include "trainer/checkpoint/checkpoint_part.hpp"

namespace rookery {

// Used by one thread; another one, its own, may write. That a part cannot be written is told in the log, and
// training goes on. Each call waits until the part before is written.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(CheckpointOwner owner);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  void write_now(const CheckpointFacts& facts, const std::map<std::string, TensorView>& training_state);
  // Copies the state, which takes as much memory again and keeps it, and writes the copy while the caller
  // goes on; where this machine has not that much left, it writes now.
  void write_beside(const CheckpointFacts& facts, const std::map<std::string, TensorView>& training_state);
  void finish();

  // The step of the newest part that this writer has brought to the disk. After finish().
  std::optional<std::int64_t> newest() const { return newest_; }
  // Memory of the copies.
  std::int64_t bytes() const;

 private:
  bool can_copy(const std::map<std::string, TensorView>& training_state) const;
  void write(const CheckpointFacts& facts, const StateViews& training_state);

  const CheckpointOwner owner_;
  StateDict copies_;
  std::jthread thread_;
  std::optional<std::int64_t> newest_;
};

}  // namespace rookery
