// The events that a provider tells whoever watches it: lines for people, and for programs one JSON object a
// line (`provider --json`), which `launch` reads.
//
//   {"event": "waiting",  "node": …, "role": …, "text": …}                      for peers
//   {"event": "training", "node": …, "role": …, "text": …}                      all are here
//   {"event": "progress", "node": …, "role": …, "epoch": 1.., "epochs": …, "step": …, "steps": …,
//    "samples_per_second": …, "seconds_left": …, "loss": …, "accuracy": …,      loss, accuracy: once known
//    "waiting": …, "waits_for": …}                       share of the time until now, and mostly for which
//    node
//   {"event": "done",     "node": …, "role": …, "text": …,                      text: the report
//    "times": {"step_ms": {"predicted": …, "measured": …}, …},                  where steps were compared
//    "stolen": …,                                                               NodeReport's
//    "rounds": …, "exposed_seconds": …, "ring_bytes": {"0": …, …}}              the same, with several
//    clusters
//   {"event": "failed",   "node": …, "role": …, "text": …}                      in place of "done"
//
// `launch --json` hands them on, and says at the end:
//   {"event": "ended", "exit_code": …, "failed_first": …, "text": …}            the last two: where one
//   failed
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "clusterize/plan/node_metadata.hpp"
#include "models/base/process/terminal.hpp"
#include "node/node.hpp"

namespace rookery {

// Milliseconds.
struct ComparedTime {
  std::string name;  // "forward", "backward", "update", "step", "round"
  double predicted = 0;
  double measured = 0;
  bool operator==(const ComparedTime&) const = default;
};

// The times that the plan predicted for this node and that its run measured; empty when no steps were
// compared.
std::vector<ComparedTime> compared_times(const NodeMetadata& metadata, const NodeReport& report);

struct ProviderEvent {
  enum class Kind : std::uint8_t { kWaiting, kTraining, kProgress, kDone, kFailed };
  Kind kind = Kind::kWaiting;
  std::string node;
  std::string role;
  std::string text;
  Progress progress;
  double waiting = 0;     // for other stages: the share of the time until now
  std::string waits_for;  // a node, mostly; empty: none
  std::vector<ComparedTime> times;
  double stolen = 0;
  std::int64_t rounds = 0;
  double exposed_seconds = 0;  // see NodeReport
  std::map<int, std::uint64_t> ring_bytes;
};

// One line without its end.
std::string to_json_line(const ProviderEvent& event);
// Without `times` and what comes after. Nothing when the line is not an event.
std::optional<ProviderEvent> parse_json_line(const std::string& line);

// The node of its cluster that a stage has waited for most; empty where it has waited less than a hundredth
// of the time.
std::string waits_for(const NodeMetadata& metadata, const Progress& progress);

// "node_1  stem  epoch 12/100  step 204/1700  loss 0.01234  accuracy 97.50%  waits 35% for node_2
// 21000 samples/s  ETA 3 s" on one line, or what it waits for. Loss and accuracy may stand elsewhere.
//
// Where a terminal is narrow, the parts that come first here are left out first: what hardly changes, or
// follows from the rest.
enum PartWeight : std::uint8_t {
  kRate = 1,
  kRole,
  kWait,
  kEpoch,
  kAccuracy,
  kTimeLeft,
  kNewestLoss,
  kStep,
  kNode
};
enum class Losses : std::uint8_t { kShown, kLeftOut };
LineParts to_parts(const ProviderEvent& event, Losses losses = Losses::kShown);
std::string to_line(const ProviderEvent& event);

// Predicted beside measured, a few lines.
std::string report_text(const NodeMetadata& metadata, const NodeReport& report);

}  // namespace rookery
