#include "node/provider_events.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

namespace rookery {
namespace {

constexpr std::array<const char*, 3> kKinds = {"waiting", "progress", "done"};

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string bytes_text(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.1f} MB", bytes / 1e6) : fmt::format("{:.2f} GB", bytes / 1e9);
}

Progress progress_from_json(const Json& line) {
  Progress progress;
  progress.epoch = line.at("epoch").get<std::int64_t>() - 1;
  progress.epochs = line.at("epochs").get<std::int64_t>();
  progress.step = line.at("step").get<std::int64_t>();
  progress.steps = line.at("steps").get<std::int64_t>();
  progress.samples_per_second = line.at("samples_per_second").get<double>();
  progress.seconds_left = line.at("seconds_left").get<double>();
  if (line.contains("loss")) progress.loss = line.at("loss").get<double>();
  if (line.contains("accuracy")) progress.accuracy = line.at("accuracy").get<double>();
  return progress;
}

std::string memory_text(const StagePrediction& predicted, const NodeReport& report) {
  const auto text = [](std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  std::vector<std::string> parts;
  const auto add = [&](const char* what, std::int64_t bytes) {
    if (bytes > 0) parts.push_back(fmt::format("{} {}", what, text(bytes)));
  };
  add("parameters", predicted.memory.parameters);
  add("gradients", predicted.memory.gradients);
  add("optimizer", predicted.memory.optimizer);
  add("stash", predicted.memory.stash);
  add("workspace", predicted.memory.workspace);
  add("program", predicted.memory.program);
  add("transport", predicted.transport_bytes);
  add("data set", predicted.dataset_bytes);
  return fmt::format("memory: {} at the peak, besides {} of program and libraries; planned: {} ({})",
                     text(report.peak_bytes - report.floor_bytes), text(report.floor_bytes),
                     text(predicted.total_bytes()), fmt::join(parts, ", "));
}

}  // namespace

std::string to_json_line(const ProviderEvent& event) {
  OrderedJson line{
      {"event", kKinds.at(static_cast<std::size_t>(event.kind))}, {"node", event.node}, {"role", event.role}};
  if (event.kind != ProviderEvent::Kind::kProgress) {
    line["text"] = event.text;
  } else {
    const Progress& progress = event.progress;
    line["epoch"] = progress.epoch + 1;
    line["epochs"] = progress.epochs;
    line["step"] = progress.step;
    line["steps"] = progress.steps;
    line["samples_per_second"] = progress.samples_per_second;
    line["seconds_left"] = progress.seconds_left;
    // JSON has no infinity.
    if (progress.loss && std::isfinite(*progress.loss)) line["loss"] = *progress.loss;
    if (progress.accuracy) line["accuracy"] = *progress.accuracy;
  }
  return line.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::optional<ProviderEvent> parse_json_line(const std::string& text) {
  const Json line = Json::parse(text, nullptr, false);
  try {
    ProviderEvent event;
    const auto kind = line.at("event").get<std::string>();
    const auto known = std::find(kKinds.begin(), kKinds.end(), kind);
    if (known == kKinds.end()) return std::nullopt;
    event.kind = static_cast<ProviderEvent::Kind>(known - kKinds.begin());
    event.node = line.at("node").get<std::string>();
    event.role = line.at("role").get<std::string>();
    if (event.kind == ProviderEvent::Kind::kProgress) {
      event.progress = progress_from_json(line);
    } else {
      event.text = line.at("text").get<std::string>();
    }
    return event;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::string to_line(const ProviderEvent& event) {
  const std::string who = fmt::format("{} {:<9}", event.node, event.role);
  if (event.kind == ProviderEvent::Kind::kWaiting) return fmt::format("{}  {}", who, event.text);
  const Progress& progress = event.progress;
  std::string line = fmt::format("{}  epoch {}/{}  step {}/{}", who, progress.epoch + 1, progress.epochs,
                                 progress.step, progress.steps);
  if (progress.loss) line += fmt::format("  loss {:.5f}", *progress.loss);
  if (progress.accuracy) line += fmt::format("  accuracy {:.2f}%", *progress.accuracy);
  line += fmt::format("  {:.0f} samples/s", progress.samples_per_second);
  return line +
         (progress.step == progress.steps ? "  done" : "  ETA " + duration_text(progress.seconds_left));
}

std::string report_text(const Node& node, const NodeReport& report) {
  const StagePrediction& predicted = node.metadata().prediction;
  return fmt::format(
      "{} steps in {:.2f} s, {:.2f} s of it waiting for peers\n"
      "compute of a micro-batch: forward {:.3f} ms (predicted {:.3f}), backward {:.3f} ms (predicted "
      "{:.3f})\n{}",
      report.steps, report.seconds, report.waiting, report.forward_ms, predicted.forward_ms,
      report.backward_ms, predicted.backward_ms, memory_text(predicted, report));
}

}  // namespace rookery
