#include "node/provider_events.hpp"

#include <array>
#include <cmath>

#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/machine/cpu_steal.hpp"
#include "trainer/schedule/machine_order.hpp"
#include "trainer/settings/batch_sizes.hpp"

namespace rookery {
namespace {

constexpr std::array<const char*, 5> kKinds = {"waiting", "training", "progress", "done", "failed"};

// Rough, as an estimate is: "85 s", "12 min", "1.5 h".
std::string time_left_text(double seconds) {
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
  // Lines count epochs from 1 on.
  progress.epoch = std::int64_t{integer_from<std::uint32_t>(line.at("epoch"))} - 1;
  progress.epochs = integer_from<std::int64_t>(line.at("epochs"));
  progress.step = integer_from<std::int64_t>(line.at("step"));
  progress.steps = integer_from<std::int64_t>(line.at("steps"));
  progress.samples_per_second = line.at("samples_per_second").get<double>();
  progress.seconds_left = line.at("seconds_left").get<double>();
  if (line.contains("loss")) progress.loss = line.at("loss").get<double>();
  if (line.contains("accuracy")) progress.accuracy = line.at("accuracy").get<double>();
  return progress;
}

// "  forward          0.210 ms    0.031 ms   -85 %"
std::string times_text(const std::vector<ComparedTime>& times, std::int64_t steps) {
  if (times.empty()) return "too few steps to compare measured times with the plan's\n";
  std::string text = fmt::format("{:<9} {:>13} {:>13}   over {} steps\n", "", "predicted", "measured", steps);
  for (const ComparedTime& time : times) {
    text += fmt::format("{:<9} {:>10.3f} ms {:>10.3f} ms", time.name, time.predicted, time.measured);
    if (time.predicted > 0) text += fmt::format(" {:>+6.0f} %", 100 * (time.measured / time.predicted - 1));
    text += time.name == "forward" || time.name == "backward" ? "   of a micro-batch\n" : "\n";
  }
  return text;
}

// "360 rounds, waiting for which took 12 % of the time; sent 68.1 MB in ring 0, 3.2 MB in ring 1"
std::string rounds_text(const NodeReport& report) {
  if (report.rounds == 0) return "";
  std::vector<std::string> sent;
  for (const auto& [ring, bytes] : report.ring_bytes)
    sent.push_back(fmt::format("{} in ring {}", bytes_text(static_cast<double>(bytes)), ring));
  return fmt::format("{} rounds, waiting for which took {:.1f} % of the time; sent {}\n", report.rounds,
                     100 * report.exposed_seconds / report.seconds, fmt::join(sent, ", "));
}

// Where a machine has several nodes the last one tells of the process, and takes what the others take for a
// part of the floor.
std::string measured_memory_text(const NodeMetadata& metadata, const NodeReport& report) {
  const StagePlacement placement = placement_of(metadata.settings.schedule, metadata.stages);
  if (placement.chunk_of(metadata.stage) + 1 < placement.chunks) return "";
  const StagePrediction& predicted = metadata.prediction;
  const auto text = [](std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  std::vector<std::string> parts;
  const auto add = [&](const char* what, std::int64_t bytes) {
    if (bytes > 0) parts.push_back(fmt::format("{} {}", what, text(bytes)));
  };
  add("parameters", predicted.memory.parameters);
  add("older versions of parameters", predicted.memory.versions);
  add("copy for updates that may be taken back", predicted.memory.kept);
  add("gradients", predicted.memory.gradients);
  add("optimizer", predicted.memory.optimizer);
  add("stash", predicted.memory.stash);
  add("workspace", predicted.memory.workspace);
  add("program", predicted.memory.program);
  add("transport", predicted.transport_bytes);
  add("data set", predicted.dataset_bytes);
  add("averaging", predicted.averaging_bytes);
  const std::string copy =
      report.checkpoint_bytes == 0
          ? ""
          : fmt::format(", {} for a copy that checkpoints are written from", text(report.checkpoint_bytes));
  return fmt::format("peak memory: {}{}, and {} for {}; planned: {} ({})",
                     text(report.peak_bytes - report.floor_bytes - report.checkpoint_bytes), copy,
                     text(report.floor_bytes),
                     placement.chunks == 1 ? "the program and its libraries"
                                           : "the program, its libraries and the machine's other stages",
                     text(predicted.total_bytes()), fmt::join(parts, ", "));
}

// Plans predict for the micro-batches of a whole batch: the share of one that this cluster's micro-batches
// are.
double share_of_micro_batch(const NodeMetadata& metadata) {
  if (metadata.shares.samples.empty()) return 1;
  const int micro_batches = decided_micro_batches(metadata.settings);
  return static_cast<double>(micro_batch_size(metadata.shares.own(), micro_batches)) /
         static_cast<double>(micro_batch_size(metadata.settings.batch_size, micro_batches));
}

}  // namespace

std::string to_json_line(const ProviderEvent& event) {
  OrderedJson line{
      {"event", kKinds.at(static_cast<std::size_t>(event.kind))}, {"node", event.node}, {"role", event.role}};
  if (event.kind != ProviderEvent::Kind::kProgress) {
    line["text"] = event.text;
    for (const ComparedTime& time : event.times)
      line["times"][time.name + "_ms"] = {{"predicted", time.predicted}, {"measured", time.measured}};
    if (event.kind == ProviderEvent::Kind::kDone) line["stolen"] = event.stolen;
    if (event.rounds > 0) {
      line["rounds"] = event.rounds;
      line["exposed_seconds"] = event.exposed_seconds;
    }
    for (const auto& [ring, bytes] : event.ring_bytes) line["ring_bytes"][fmt::to_string(ring)] = bytes;
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
    line["waiting"] = event.waiting;
    if (!event.waits_for.empty()) line["waits_for"] = event.waits_for;
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
      event.waiting = line.at("waiting").get<double>();
      event.waits_for = line.value("waits_for", "");
    } else {
      event.text = line.at("text").get<std::string>();
    }
    return event;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::string waits_for(const NodeMetadata& metadata, const Progress& progress) {
  if (progress.waiting < 0.01 * progress.seconds || metadata.stages == 1) return "";
  const bool is_leaf = metadata.stage + 1 == metadata.stages;
  const bool later = metadata.stage == 0 || (!is_leaf && 2 * progress.waiting_for_later >= progress.waiting);
  return metadata.members.at(static_cast<std::size_t>(metadata.stage + (later ? 1 : -1))).node;
}

LineParts to_parts(const ProviderEvent& event, Losses losses) {
  if (event.kind != ProviderEvent::Kind::kProgress)
    return {{fmt::format("{}  {:<9}  {}", event.node, event.role, event.text), kNode}};
  const Progress& progress = event.progress;
  LineParts parts{{event.node, kNode},
                  {fmt::format("{:<9}", event.role), kRole},
                  {fmt::format("epoch {}/{}", progress.epoch + 1, progress.epochs), kEpoch},
                  {fmt::format("step {}/{}", progress.step, progress.steps), kStep}};
  if (losses == Losses::kShown) {
    if (progress.loss) parts.push_back({fmt::format("loss {:.5f}", *progress.loss), kNewestLoss});
    if (progress.accuracy) parts.push_back({fmt::format("accuracy {:.2f}%", *progress.accuracy), kAccuracy});
  }
  if (!event.waits_for.empty()) {
    parts.push_back({fmt::format("waits {:.0f}% for {}", 100 * event.waiting, event.waits_for), kWait});
  }
  parts.push_back({fmt::format("{:.0f} samples/s", progress.samples_per_second), kRate});
  parts.push_back(
      {progress.step == progress.steps ? "done" : "ETA " + time_left_text(progress.seconds_left), kTimeLeft});
  return parts;
}

std::string to_line(const ProviderEvent& event) {
  return joined(to_parts(event));
}

std::vector<ComparedTime> compared_times(const NodeMetadata& metadata, const NodeReport& report) {
  if (report.compared_steps == 0) return {};
  const StagePrediction& predicted = metadata.prediction;
  const double part = share_of_micro_batch(metadata);
  std::vector<ComparedTime> times{
      {"forward", part * predicted.forward_ms, report.forward_ms},
      {"backward", part * predicted.backward_ms, report.backward_ms},
      {"update", predicted.update_ms, report.update_ms},
      {"step", metadata.predicted_step_ms + metadata.predicted_averaging_ms, report.step_ms}};
  if (report.rounds > 0) times.push_back({"round", metadata.predicted_round_ms, report.round_ms});
  return times;
}

std::string report_text(const NodeMetadata& metadata, const NodeReport& report) {
  std::string stolen = cpu_steal_text(report.stolen);
  if (!stolen.empty()) stolen += ": steps take longer than on a quiet one\n";
  const std::string reading = report.reading >= 0.005
                                  ? fmt::format(", {:.2f} s for samples to be read", report.reading)
                                  : std::string();
  return fmt::format("{} steps in {:.2f} s, {:.2f} s of it waiting for peers{}\n{}{}{}{}", report.steps,
                     report.seconds, report.waiting, reading,
                     times_text(compared_times(metadata, report), report.compared_steps), rounds_text(report),
                     stolen, measured_memory_text(metadata, report));
}

}  // namespace rookery
