// node_data/train.json: what is trained and how. See node_data/README.md for every key.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/base/files/json_file.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/runtime/optimizer.hpp"
#include "trainer/data/augment/augment.hpp"
#include "trainer/data/dataset.hpp"
#include "trainer/schedule/schedule.hpp"
#include "trainer/settings/averaging.hpp"
#include "trainer/settings/learning_rate.hpp"
#include "trainer/settings/transport.hpp"

namespace rookery {

struct TrainingSettings {
  std::string model = "cnn_net";   // of open_model(): a name in the zoo, with options, or a file
  std::string data = "digits";     // of open_dataset()
  double train_fraction = 0.6;     // of the samples; the rest validates
  std::string split = "shuffled";  // or "in_order"
  ReadingSettings reading;
  std::vector<AugmentStep> augment;  // what is done to images
  LossSettings loss;
  OptimizerSettings optimizer;
  LearningRateSchedule learning_rate_schedule;
  std::optional<double> clip_gradient_norm;  // of all gradients of a step
  int epochs = 1;
  std::int64_t batch_size = 64;
  std::optional<int> micro_batches = 1;  // per full batch; nothing: clusterize chooses their number ("auto")
  ScheduleSettings schedule;
  std::string recompute = "auto";  // activations: "none", "full"; "auto": where a stage fits only so
  AveragingSettings averaging;     // of several clusters
  TransportSettings transport;     // between the stages of a cluster
  std::string shares = "speed";    // of a step's samples, by cluster; or "equal"
  int validate_every = 1;          // epochs; 0: never
  std::string precision = "fp32";  // or "bf16"
  std::uint64_t seed = 42;
  bool save = true;                         // write each submodel's trained weights at the end
  bool tensorboard = true;                  // write runs/ for TensorBoard
  int histograms = 0;                       // of weights, there: epochs from one to the next; 0: none
  std::string checkpoint_every = "10 min";  // of checkpoint_interval.hpp
  int keep_checkpoints = 3;
  std::optional<std::string> checkpoint_upload;   // "s3://BUCKET/PREFIX", where they are put besides
  double peer_timeout_seconds = 10;               // a peer of which nothing was heard for longer is lost
  std::optional<double> reconnect_grace_seconds;  // at most peer_timeout_seconds; nothing: as long as that
  // By a second name that the module has for a parameter, the name that it is trained under.
  std::map<std::string, std::string> tied;
  // Patterns of names of parameters: what is not trained, and of that what is.
  std::vector<std::string> frozen, trained;
  bool operator==(const TrainingSettings&) const = default;
};

// ConfigError "FILE: key: …" for unknown keys, wrong types, values out of range.
TrainingSettings settings_from_json(const Json& document, std::string_view file);
// All keys, but for some that are null (SettingsKey::leaves_out_null).
OrderedJson to_json(const TrainingSettings& settings);
// The keys that train.json may have, as a JSON Schema (draft 7).
Json settings_schema();
// The same as a markdown table: key, values, default, meaning.
std::string settings_reference();
// The keys that are left to clusterize ("auto"). A plan's settings have none.
std::vector<std::string> undecided(const TrainingSettings& settings);
TrainingSettings read_settings(const std::filesystem::path& train_json);
// The `loss` of train.json in one line: a name, or JSON. ConfigError for what is no loss.
std::string to_text(const LossSettings& loss);
LossSettings loss_from_text(const std::string& text);
// The same of its `augment`.
std::string to_text(const std::vector<AugmentStep>& augment);
std::vector<AugmentStep> augment_from_text(const std::string& text);

}  // namespace rookery
