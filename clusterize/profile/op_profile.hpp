// node_data/op_profile.json: what every op of a model took where `clusterize --profile` measured it, on one
// thread and on several. Times of other machines follow from it: seconds on node i = measured seconds *
// gflops here / gflops of node i, all on as many threads as node i has, or the nearest number below that was
// measured.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "clusterize/profile/by_threads.hpp"
#include "models/graph/graph.hpp"
#include "models/kernels/choose.hpp"
#include "trainer/data/dataset.hpp"
#include "trainer/settings/batch_sizes.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

// Seconds of one micro-batch.
struct OpSeconds {
  std::string type;    // of the op
  std::string output;  // type of its first output: "f32[64, 16, 8, 8]"
  double forward = 0;
  double backward_inputs = 0;
  double backward_weights = 0;
};

// What was measured on a number of threads.
struct ThreadTimes {
  double gflops = 0;                     // of this machine with them, by SpeedMeter
  double update_seconds_per_byte = 0;    // of parameters, of a step
  std::map<std::string, OpSeconds> ops;  // by name, all of the model's
};

struct OpProfile {
  // The machine and the job that it holds for.
  std::string machine;  // measured_machine()
  std::string model;
  std::int64_t micro_batch = 0;
  KernelChoice kernels;

  double input_seconds = 0;        // the Root's, to get a micro-batch from its data set, on one thread
  ByThreads<ThreadTimes> threads;  // at least of one number
};

struct ProfileRequest {
  const Graph& graph;  // ends in its losses
  const TrainingSettings& settings;
  const Dataset& dataset;
  const DataSizes& data;
  const KernelChoice& kernels;
  std::set<int> threads{1};                            // each number of them is measured
  std::int64_t memory_bytes = 0;                       // that it may take, where pieces of the model fit that
  double seconds = 1;                                  // for each piece and number of threads
  std::function<void(const std::string&)> doing = {};  // told what is being measured
};

// Measures the model's training step on this machine, in pieces that fit the memory, each with the kernels of
// the run.
OpProfile measure_profile(const ProfileRequest& request);

std::filesystem::path op_profile_path(const std::filesystem::path& node_data);
void write_profile(const std::filesystem::path& file, const OpProfile& profile);
// Nothing when there is no file. ConfigError naming file and place when it is damaged.
std::optional<OpProfile> read_profile(const std::filesystem::path& file);
// Why it does not hold for this model, in words: "it is of micro-batches of 32, not of 64"; empty when it
// does.
std::string profile_problem(const OpProfile& profile, const Graph& graph, const TrainingSettings& settings,
                            const KernelChoice& kernels);

}  // namespace rookery
