// A run's losses and accuracies as text files: losses.txt, a line a step, and val_losses.txt and, where
// targets are class indices, val_accuracies.txt, a line a validation.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "trainer/progress/line_log.hpp"
#include "trainer/progress/run_log.hpp"

namespace rookery {

// Written by the Leaf's compute thread; on other stages it does nothing. The validation's files are made by
// the Leaf of the first cluster alone. With several losses a first line says what the columns are: the
// weighted sum and each loss, or the accuracy of each that has one. Files of the run before are kept as
// losses.txt.1 and so on; those of the same run, which goes on, are continued. A disk that is full is a
// warning, but when the run begins (LineLog).
class TextFiles : public RunLog {
 public:
  // `folder` exists.
  explicit TextFiles(std::filesystem::path folder);
  // DataError when the files cannot be made, or there is no room for them.
  void begin(const RunDescription& run) override;
  void after_update(const Progress& progress, const BatchResult& batch) override;
  void after_validation(const Progress& progress, const BatchResult& total) override;

 private:
  std::filesystem::path folder_;
  std::vector<bool> classifies_;  // by loss: are its targets class indices
  std::optional<LineLog> losses_, validation_losses_, accuracies_;
};

}  // namespace rookery
