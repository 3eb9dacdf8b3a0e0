#include "trainer/progress/tensorboard/run_folder.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>

#include "models/base/files/files.hpp"
#include "models/base/files/json_file.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"

namespace rookery {
namespace {

// The digits that losses.txt has, too.
std::string number_text(double number) {
  return fmt::format("{:.9g}", number);
}

constexpr std::size_t kMostLineBytes = 1U << 16;

// As JSON has it between quotation marks; bytes that are no UTF-8 are replaced.
std::string escaped(const std::string& text) {
  const std::string quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

// "resnet18?image_size=32" as the name of a folder; of a file's path its last part.
std::string folder_name(const std::string& model) {
  std::string name = std::filesystem::path(model).filename().string();
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '_' && c != '.' && c != '='; }, '-');
  return name.empty() || name.front() == '.' ? "model" + name : name;
}

// How many lines of a metrics.jsonl are of no later step.
std::int64_t lines_until(const std::filesystem::path& path, std::int64_t step) {
  std::ifstream file(path);
  std::int64_t lines = 0;
  for (std::string line; std::getline(file, line) && !file.eof(); ++lines) {
    const Json object = Json::parse(line, nullptr, false);
    if (!object.is_object() || !object.contains("step") || !object.at("step").is_number_integer() ||
        object.at("step").get<std::int64_t>() > step)
      break;
  }
  return lines;
}

}  // namespace

std::filesystem::path run_folder_of(const std::filesystem::path& output, const std::string& model) {
  return output / "runs" / folder_name(model);
}

RunFolder::~RunFolder() {
  if (events_) flush();
}

void RunFolder::begin(const RunDescription& run) {
  if (run.losses.empty() || !run.settings.tensorboard) return;
  const std::filesystem::path folder = run_folder_of(folder_, run.settings.model);
  try {
    open(folder, run);
  } catch (const std::exception& error) {
    events_.reset();
    lines_.reset();
    spdlog::warn("{}: training goes on without {}", error.what(), folder.string());
  }
}

void RunFolder::open(const std::filesystem::path& folder, const RunDescription& run) {
  for (const LossOp& loss : run.losses) names_.push_back(escaped(loss.value));
  stride_ = std::max<std::int64_t>(1, (run.steps + kMostPoints - 1) / kMostPoints);
  since_ = std::chrono::steady_clock::now();
  make_directories(folder);
  const std::int64_t step = run.from != nullptr ? run.from->step : 0;
  const std::filesystem::path lines = folder / "metrics.jsonl";
  if (run.from != nullptr) {
    lines_.emplace(lines, 0, lines_until(lines, step));
  } else {
    lines_.emplace(lines);
  }
  // Points are of the steps done: the first that is trained again is the one after.
  events_.emplace(folder, run.from != nullptr ? step + 1 : 0);
  events_->write_text(step, "train.json", fmt::format("```\n{}\n```", to_json(run.settings).dump(2)));
  if (!plan_.empty()) show_plan(step);
  events_->flush();
}

void RunFolder::show_plan(std::int64_t step) {
  constexpr std::uint64_t kMostBytes = 64U << 20;
  const auto with = [&](const char* name, auto&& write) {
    if (const std::filesystem::path path = plan_ / name; std::filesystem::exists(path))
      write(read_file(path, kMostBytes));
  };
  with(plan_files::kPlanImage, [&](std::string png) { events_->write_image(step, "plan", std::move(png)); });
  with(plan_files::kStepImage, [&](std::string png) { events_->write_image(step, "step", std::move(png)); });
  with(plan_files::kGraph, [&](std::string graph) { events_->write_graph(std::move(graph)); });
}

void RunFolder::after_update(const Progress& progress, const BatchResult& batch) {
  if (!events_) return;
  const bool has_rate = measure_rate(batch);
  const bool is_point = progress.step % stride_ == 0 || progress.step == progress.steps;
  if (!is_point && !has_rate) return;
  Numbers numbers;
  if (is_point) {
    numbers = losses_of_result(batch, "train");
    numbers.emplace_back("learning_rate", progress.learning_rate);
  }
  if (has_rate) numbers.emplace_back("samples_per_second", rate_);
  write(progress.step, numbers);
  if (has_rate) flush();
}

// Once a second it is time to write it.
bool RunFolder::measure_rate(const BatchResult& batch) {
  samples_ += batch.samples;
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - since_).count();
  if (seconds < 1) return false;
  rate_ = static_cast<double>(samples_) / seconds;
  samples_ = 0;
  since_ = now;
  return true;
}

void RunFolder::after_gradients(std::int64_t step, double norm) {
  if (events_) write(step, {{"gradient_norm", norm}});
}

void RunFolder::after_validation(const Progress& progress, const BatchResult& total) {
  if (!events_) return;
  Numbers numbers = losses_of_result(total, "validation");
  for (std::size_t i = 0; i < total.losses.size(); ++i) {
    if (const auto accuracy = total.losses[i].accuracy())
      numbers.emplace_back(names_.size() == 1 ? "accuracy/validation" : "accuracy/validation/" + names_[i],
                           *accuracy);
  }
  write(progress.step, numbers);
  flush();
  since_ = std::chrono::steady_clock::now();
  samples_ = 0;
}

void RunFolder::add_numbers(std::int64_t step, const Numbers& numbers) {
  if (events_) write(step, numbers);
}

// The weighted sum; where there are several, each of them besides.
RunFolder::Numbers RunFolder::losses_of_result(const BatchResult& result, const std::string& kind) const {
  Numbers numbers{{"loss/" + kind, result.loss}};
  for (std::size_t i = 0; names_.size() > 1 && i < result.losses.size(); ++i)
    numbers.emplace_back("loss/" + kind + "/" + names_[i], result.losses[i].loss);
  return numbers;
}

void RunFolder::write(std::int64_t step, const Numbers& numbers) {
  std::vector<std::pair<std::string, float>> scalars;
  std::string& lines = waiting_lines_;
  const auto end = std::back_inserter(lines);
  fmt::format_to(end, R"({}{{"step": {})", lines.empty() ? "" : "\n", step);
  for (const auto& [tag, number] : numbers) {
    const std::string text = number_text(number);
    scalars.emplace_back(tag, static_cast<float>(std::strtod(text.c_str(), nullptr)));
    fmt::format_to(end, R"(, "{}": {})", tag, std::isfinite(number) ? text : "null");
  }
  lines += '}';
  events_->write_scalars(step, scalars);
  if (lines.size() > kMostLineBytes) flush();
}

void RunFolder::flush() {
  if (!waiting_lines_.empty()) lines_->write(waiting_lines_);
  waiting_lines_.clear();
  events_->flush();
}

}  // namespace rookery
