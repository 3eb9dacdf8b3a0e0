// The folder of a run for TensorBoard, and for programs: its curves as event files and as JSON lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/progress/line_log.hpp"
#include "trainer/progress/run_log.hpp"
#include "trainer/progress/tensorboard/event_file.hpp"

namespace rookery {

// runs/MODEL in the folder `output`, with what a file system or a URL would mind in a model's name replaced.
std::filesystem::path run_folder_of(const std::filesystem::path& output, const std::string& model);

// The files of a plan's folder that TensorBoard shows; clusterize writes them.
namespace plan_files {
constexpr const char* kPlanImage = "plan.png";
constexpr const char* kStepImage = "step.png";
constexpr const char* kGraph = "graph.pb";  // graph_def.hpp
}  // namespace plan_files

// The Leaf's alone, and only where the setting `tensorboard` asks for it; elsewhere it does nothing. It
// writes runs/MODEL/ in the folder:
//
// - events.out.tfevents.…: loss/train and learning_rate of every step, or, of runs of more than
//   kMostPoints steps, of so many evenly chosen ones and the last; samples_per_second at most once a second;
//   loss/validation and accuracy/validation of every validation; where there are several losses, each as
//   loss/train/NAME and so on; and the settings as text. Losses are the numbers of losses.txt, as floats.
//   gradient_norm of RunLog::after_gradients(). With what others add (add_numbers()), such as what every node
//   does; and what a plan's folder has (plan_files): the images "plan" and "step", and the model's graph.
// - metrics.jsonl: the same, an object a line, {"step": 1, "loss/train": 2.31, "learning_rate": 0.001}. What
//   is no number (NaN, infinity) is null.
//
// A run that goes on does so in a new event file of the folder, which tells TensorBoard to forget the steps
// that are trained again; metrics.jsonl goes on behind the lines of the step where it does. Of a run that
// begins metrics.jsonl is new, and the one before is kept as metrics.jsonl.1.
//
// All is handed to the system once a second, with the next step, and after validations: a step takes no call
// for it, and a run that is killed lacks at most what the last second has brought.
//
// A file that cannot be made or written is a warning: nothing here ends a run.
class RunFolder : public RunLog {
 public:
  static constexpr std::int64_t kMostPoints = 100'000;

  // `folder` exists. `plan`: the folder of the plan, of whose files (plan_files) what is there is shown; may
  // be empty.
  explicit RunFolder(std::filesystem::path folder, std::filesystem::path plan = {})
      : folder_(std::move(folder)), plan_(std::move(plan)) {}
  ~RunFolder() override;
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  void begin(const RunDescription& run) override;
  void after_update(const Progress& progress, const BatchResult& batch) override;
  void after_gradients(std::int64_t step, double norm) override;
  void after_validation(const Progress& progress, const BatchResult& total) override;

  // Curves that others know, by their names: handed on with what is written next.
  using Numbers = std::vector<std::pair<std::string, double>>;
  void add_numbers(std::int64_t step, const Numbers& numbers);

 private:
  void open(const std::filesystem::path& folder, const RunDescription& run);
  void show_plan(std::int64_t step);
  bool measure_rate(const BatchResult& batch);
  Numbers losses_of_result(const BatchResult& result, const std::string& kind) const;
  void write(std::int64_t step, const Numbers& numbers);
  void flush();

  std::filesystem::path folder_;
  std::filesystem::path plan_;
  std::vector<std::string> names_;  // of the losses
  std::int64_t stride_ = 1;         // steps from one point to the next
  // Since the last rate was written, or the last validation was over.
  std::chrono::steady_clock::time_point since_;
  std::int64_t samples_ = 0;
  double rate_ = 0;
  std::optional<EventFile> events_;
  std::optional<LineLog> lines_;
  std::string waiting_lines_;  // not handed on yet
};

}  // namespace rookery
