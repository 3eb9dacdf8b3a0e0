// Measures how good a trained state dict is on a data set.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "fusion/inference/confusion.hpp"
#include "fusion/inference/decode.hpp"
#include "models/graph/state/state_dict.hpp"
#include "trainer/data/dataset.hpp"
#include "trainer/stage_worker.hpp"

namespace rookery {

enum class Subset : std::uint8_t { kValidation, kTrain, kAll };

// "validation", "train", "all"; UsageError for another name.
Subset subset_named(const std::string& name);

struct EvaluationRequest {
  std::filesystem::path state;  // as read_trained_model() takes it
  // Where one is not given it is taken from the state, else from node_data/train.json.
  std::optional<std::string> model;
  std::optional<std::string> data;
  std::optional<std::uint64_t> seed;
  Subset subset = Subset::kValidation;
  std::int64_t batch = 256;
  std::filesystem::path node_data = "./node_data";
  bool per_class = false;  // also find the confusion matrix, for which the model runs once more
  // Where the model's outputs for all of these samples go, as a safetensors file; empty: nowhere.
  std::filesystem::path outputs;
};

struct Evaluation {
  std::string model;
  std::string data;
  std::string loss_name;  // "cross_entropy"; of several "cross_entropy + 0.5 l1"
  double loss = 0;        // mean over the samples; of several losses their weighted sum
  std::int64_t samples = 0;
  std::vector<std::pair<std::string, LossResult>> losses;  // each by its name in the graph
  std::optional<Decoded> decoded;               // where the labels of the data set continue its input
  std::optional<Confusion> confusion;           // where it was asked for
  std::optional<std::int64_t> checkpoint_step;  // where the state is a checkpoint

  // The first loss whose targets are class indices; nullptr where there is none.
  const LossResult* classifier() const;
};

// Runs the model forward, dropout off and running statistics fixed. ConfigError or DataError when
// model, state and data do not fit each other or are not named anywhere.
Evaluation evaluate(const EvaluationRequest& request);

// The same for what is in memory already: `loss` over the samples `ids`, `batch` at a time.
Evaluation evaluate(Graph model, const LossSettings& loss, const StateDict& state, const Dataset& dataset,
                    std::span<const std::int64_t> ids, std::int64_t batch);

}  // namespace rookery
