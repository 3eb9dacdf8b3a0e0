#include "trainer/progress/text_files.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

// Room for so many lines, but no more than is sure to be used before long.
std::uint64_t log_bytes(std::int64_t lines, std::size_t losses) {
  constexpr std::uint64_t kColumnBytes = 16;  // "0.123456789" and what parts it from the next
  constexpr std::int64_t kMostLines = 65536;
  return static_cast<std::uint64_t>(std::min(lines, kMostLines)) * (1 + losses) * kColumnBytes;
}

// The loss; where there are several, their weighted sum and each of them.
std::string losses_line(const BatchResult& result) {
  std::string line = fmt::format("{:.9g}", result.loss);
  if (result.losses.size() == 1) return line;
  for (const LossResult& part : result.losses) line += fmt::format(" {:.9g}", part.loss);
  return line;
}

// The accuracy of each loss that has one; "nan" where all positions are ignored.
std::string accuracies_line(const BatchResult& result, const std::vector<bool>& classifies) {
  std::string line;
  for (std::size_t i = 0; i < classifies.size(); ++i) {
    if (!classifies[i]) continue;
    const auto accuracy = result.losses[i].accuracy();
    line += (line.empty() ? "" : " ") + (accuracy ? fmt::format("{:.4f}", *accuracy) : "nan");
  }
  return line;
}

}  // namespace

TextFiles::TextFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

void TextFiles::begin(const RunDescription& run) {
  if (run.losses.empty()) return;
  const std::int64_t epochs = run.settings.epochs;
  const std::int64_t titles = run.losses.size() > 1 ? 1 : 0;
  const auto open = [&](std::optional<LineLog>& log, const char* name, std::int64_t lines,
                        std::int64_t done) {
    if (run.from != nullptr) {
      log.emplace(folder_ / name, log_bytes(lines - done, run.losses.size()), titles + done);
    } else {
      log.emplace(folder_ / name, log_bytes(lines, run.losses.size()));
    }
  };
  const RunState from = run.from != nullptr ? *run.from : RunState();
  std::string names = "# loss";
  std::string classifiers = "#";
  for (const LossOp& loss : run.losses) {
    classifies_.push_back(loss.hits.has_value());
    names += " " + loss.value;
    if (loss.hits) classifiers += " " + loss.value;
  }
  open(losses_, "losses.txt", run.steps, from.step);
  if (run.is_first_cluster) {
    open(validation_losses_, "val_losses.txt", epochs, from.validations);
    if (std::ranges::count(classifies_, true) > 0)
      open(accuracies_, "val_accuracies.txt", epochs, from.validations);
  }
  if (titles == 0 || run.from != nullptr) return;
  losses_->write(names);
  if (validation_losses_) validation_losses_->write(names);
  if (accuracies_) accuracies_->write(classifiers);
}

void TextFiles::after_update(const Progress& /*progress*/, const BatchResult& batch) {
  if (losses_) losses_->write(losses_line(batch));
}

void TextFiles::after_validation(const Progress& /*progress*/, const BatchResult& total) {
  if (validation_losses_) validation_losses_->write(losses_line(total));
  if (accuracies_) accuracies_->write(accuracies_line(total, classifies_));
}

}  // namespace rookery
