// Rookery's side of bench/cnn_net_step.py: one stage that holds all of cnn_net, driven by lines on
// standard input.
//
//   cnn_net_step STATE BATCHES [no-dropout]
//
// STATE is a safetensors file of parameters and buffers. BATCHES holds batches of 64 samples, each
// 64 * 64 f32 samples and then 64 i64 labels, all little-endian. For every line N on standard input
// it trains N steps, going round the batches, and answers with the seconds they took and the loss of
// each.
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/graph/loss.hpp"
#include "models/io/safetensors.hpp"
#include "models/runtime/executable.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kBatchSize = 64;
constexpr std::size_t kSampleBytes = kBatchSize * 64 * sizeof(float);
constexpr std::size_t kLabelBytes = kBatchSize * sizeof(std::int64_t);
constexpr std::size_t kBatchBytes = kSampleBytes + kLabelBytes;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;

Graph training_graph(bool dropout) {
  Graph graph = cnn_net();
  for (OpId id = 0; !dropout && id < static_cast<OpId>(graph.ops().size()); ++id) {
    if (graph.op(id).type == "Dropout") graph.op(id).attributes["ratio"] = 0.0F;
  }
  add_loss(graph, "mse");
  return graph;
}

class Bench {
 public:
  Bench(const std::string& state, const std::string& batches, bool dropout)
      : graph_(training_graph(dropout)),
        stage_(std::move(cut(graph_, std::vector<OpId>{0}).front())),
        batches_(read_file(batches, kMaxFileBytes)),
        executable_(stage_, options(), read_safetensors(state).tensors) {
    if (batches_.empty() || batches_.size() % kBatchBytes != 0) {
      throw DataError(fmt::format("{}: {} bytes are not a number of batches", batches, batches_.size()));
    }
  }

  // The loss of one step, a copy of its batch included.
  float step() {
    const MicroBatch micro_batch{.step = step_, .size = kBatchSize};
    const char* batch = batches_.data() + static_cast<std::size_t>(step_) * kBatchBytes % batches_.size();
    for (std::size_t i = 0; i < stage_.inputs.size(); ++i) {
      const std::string& name = stage_.inputs[i].value;
      const auto into = executable_.input(i, micro_batch).bytes();
      if (name == kSampleIds) continue;
      std::memcpy(into.data(), name == kLabels ? batch + kSampleBytes : batch, into.size());
    }
    executable_.forward(micro_batch);
    const float loss = executable_.output(loss_output(), micro_batch).as<float>()[0];
    executable_.backward_inputs(micro_batch);
    executable_.backward_weights(micro_batch);
    executable_.update(step_++, OptimizerSettings().learning_rate);
    return loss;
  }

 private:
  CompileOptions options() const {
    return {.training_sizes = {kBatchSize},
            .inference_sizes = {},
            .kernels = choose_kernels(graph_, kBatchSize),
            .seed = 42,
            .optimizer = {}};
  }

  std::size_t loss_output() const {
    std::size_t i = 0;
    while (stage_.outputs.at(i).value != kLoss) ++i;
    return i;
  }

  Graph graph_;
  Stage stage_;
  std::string batches_;
  Executable executable_;
  std::int64_t step_ = 0;
};

void serve(Bench& bench) {
  std::vector<float> losses;
  for (std::size_t steps = 0; std::cin >> steps;) {
    losses.clear();
    losses.reserve(steps);
    const auto begin = std::chrono::steady_clock::now();
    while (losses.size() < steps) losses.push_back(bench.step());
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    fmt::print("{} {}\n", taken.count(), fmt::join(losses, " "));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace rookery

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4 || (argc == 4 && std::string_view(argv[3]) != "no-dropout")) {
    fmt::print(stderr, "usage: cnn_net_step STATE BATCHES [no-dropout]\n");
    return 2;
  }
  try {
    rookery::Bench bench(argv[1], argv[2], argc == 3);
    rookery::serve(bench);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "cnn_net_step: {}\n", error.what());
    return 1;
  }
}
