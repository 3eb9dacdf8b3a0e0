// Rookery's side of bench/training_step.py: one stage that holds a whole model, driven by lines on standard
// input. bench/torch_side.py speaks the same language.
//
//   training_step --model MODEL --folder FOLDER --threads N [--bf16] [--no-dropout] [--choose]
//
// FOLDER holds state.safetensors, parameters and buffers, batches.safetensors, batches number K of
// inputs by name as "K.<name>", K from 0, and kernels.json, which --choose writes and does nothing else.
// First comes one line of JSON: batch size, floating-point operations of a step, planned bytes. For every
// line N it trains N steps, going round the batches, and answers with the seconds they took and the loss of
// each; for a line "memory", with the peak of its resident memory less what it had before the model was
// there, when a small one had trained a few steps, in bytes.

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "bench/measured_models.hpp"
#include "models/base/error.hpp"
#include "models/base/files/json_file.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/process/process_memory.hpp"
#include "models/base/process/program.hpp"
#include "models/base/process/team_waits.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/cost.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "models/kernels/measured.hpp"
#include "models/kernels/precision.hpp"
#include "models/kernels/threads.hpp"
#include "models/runtime/executable.hpp"

namespace rookery {
namespace {

// What is resident now; the peak begins anew here.
std::int64_t floor_of_memory() {
  std::ofstream("/proc/self/clear_refs") << "5";
  return process_memory().resident;
}

struct Task {
  std::string model;
  std::filesystem::path folder;
  bool bf16 = false;
  bool dropout = true;
  std::filesystem::path kernels() const { return folder / "kernels.json"; }
};

Graph training_graph(const Task& task) {
  Graph graph = measured_model(task.model);
  for (OpId id = 0; !task.dropout && id < static_cast<OpId>(graph.ops().size()); ++id) {
    if (auto& attributes = graph.op(id).attributes; attributes.contains("ratio")) attributes["ratio"] = 0.0F;
  }
  add_loss(graph, measured_loss(task.model));
  return graph;
}

// The batches of a file: inputs by name.
std::vector<StateDict> read_batches(const std::filesystem::path& path) {
  std::vector<StateDict> batches;
  for (const auto& [name, tensor] : read_safetensors(path).tensors) {
    const auto dot = name.find('.');
    const std::size_t number = std::stoul(name.substr(0, dot));
    batches.resize(std::max(batches.size(), number + 1));
    batches[number].emplace(name.substr(dot + 1), tensor.clone());
  }
  if (batches.empty()) throw DataError(fmt::format("{}: no batches", path.string()));
  return batches;
}

std::int64_t batch_size(const std::vector<StateDict>& batches) {
  return batches[0].at(kLabels).shape()[0];
}

class Training {
 public:
  Training(Graph graph, const KernelChoice& kernels, StateDict state, const std::vector<StateDict>& batches)
      : batches_(batches),
        size_(batch_size(batches)),
        graph_(std::move(graph)),
        losses_(losses_of(graph_)),
        stage_(std::move(cut(graph_, std::vector<OpId>{0}).front())),
        executable_(stage_, options(kernels), std::move(state)) {}

  nlohmann::json description() const {
    double flops = 0;
    for (const OpCost& cost : op_costs(graph_, size_)) flops += cost.forward_flops + cost.backward_flops;
    return {{"batch", size_}, {"flops", flops}, {"planned", executable_.memory().total()}};
  }

  // The loss of one step, a copy of its batch included.
  float step() {
    const MicroBatch micro_batch{.step = step_, .size = size_};
    const StateDict& batch = batches_[static_cast<std::size_t>(step_) % batches_.size()];
    for (std::size_t i = 0; i < stage_.inputs.size(); ++i) {
      const auto given = batch.find(stage_.inputs[i].value);
      if (given != batch.end()) copy(given->second.view(), executable_.input(i, micro_batch));
    }
    executable_.forward(micro_batch);
    float loss = 0;
    for (const LossOp& term : losses_)
      loss += executable_.output(output(term.value), micro_batch).as<float>()[0];
    executable_.begin_update(micro_batch, OptimizerSettings().learning_rate);
    executable_.backward_inputs(micro_batch);
    executable_.backward_weights(micro_batch);
    executable_.update(step_++, OptimizerSettings().learning_rate);
    return loss;
  }

 private:
  CompileOptions options(const KernelChoice& kernels) const {
    CompileOptions options;
    options.training_sizes = {size_};
    options.updates_in_backward = true;  // as a plan of one cluster and one micro-batch has it
    options.kernels = kernels;
    options.seed = 42;
    return options;
  }

  std::size_t output(const std::string& value) const {
    std::size_t i = 0;
    while (stage_.outputs.at(i).value != value) ++i;
    return i;
  }

  const std::vector<StateDict>& batches_;  // outlive the training
  std::int64_t size_;
  Graph graph_;
  std::vector<LossOp> losses_;
  Stage stage_;
  Executable executable_;
  std::int64_t step_ = 0;
};

// As clusterize does before training, so that what measuring takes is not counted.
int choose(const Task& task, const std::vector<StateDict>& batches) {
  const Graph graph = training_graph(task);
  MeasuredKernels measured;
  KernelChoice kernels = choose_kernels(graph, batch_size(batches), &measured);
  if (task.bf16) kernels = in_bf16(graph, std::move(kernels));
  write_json(task.kernels(), OrderedJson(kernels));
  return kDone;
}

// Brings into memory what libraries take at their first steps, whatever the model, as torch_side.py does.
void warm_up() {
  constexpr std::int64_t kBatch = 4;
  GraphBuilder net;
  const ValueId features = net.conv2d("conv", net.input("input", {1, 8, 8}), 4);
  Graph graph = net.finish(net.linear("linear", net.flatten("flat", features), 4));
  add_loss(graph, "cross_entropy");
  KernelChoice kernels = choose_kernels(graph, kBatch);
  for (auto& [op, backend] : kernels) {
    if (op == "conv" || op == "linear") backend = "onednn";
  }
  std::vector<StateDict> batches(1);
  batches[0].emplace("input", Tensor(DType::kF32, {kBatch, 1, 8, 8}));
  batches[0].emplace(kLabels, Tensor(DType::kI64, {kBatch}));
  for (auto& [name, tensor] : batches[0]) std::ranges::fill(tensor.view().bytes(), std::byte{});
  Training training(graph, kernels, initial_state(graph, 1), batches);
  for (int step = 0; step < 3; ++step) training.step();
}

int serve(const Task& task, const std::vector<StateDict>& batches) {
  warm_up();
  const std::int64_t floor = floor_of_memory();
  Training training(training_graph(task), read_json(task.kernels()).get<KernelChoice>(),
                    read_safetensors(task.folder / "state.safetensors").tensors, batches);
  const auto answer = [](const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  };
  answer(training.description().dump());
  std::vector<float> losses;
  for (std::string order; std::cin >> order;) {
    if (order == "memory") {
      answer(std::to_string(process_memory().peak - floor));
      continue;
    }
    const std::size_t steps = std::stoul(order);
    losses.clear();
    losses.reserve(steps);
    const auto begin = std::chrono::steady_clock::now();
    while (losses.size() < steps) losses.push_back(training.step());
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    answer(fmt::format("{} {}", taken.count(), fmt::join(losses, " ")));
  }
  return 0;
}

}  // namespace
}  // namespace rookery

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  rookery::let_teams_sleep(argv);
  const rookery::ProgramInfo info{.name = "training_step",
                                  .summary = "Rookery's side of bench/training_step.py, which starts it.",
                                  .example = "bench/training_step.py --models cnn_net"};
  rookery::ProgramOptions options("Options");
  options.add_options()("model", po::value<std::string>()->required(), "a model of the zoo")(
      "folder", po::value<std::string>()->required(), "with state.safetensors and batches.safetensors")(
      "threads", po::value<int>()->default_value(1), "of kernels")("bf16", "in mixed precision")(
      "choose", "choose the kernels, write kernels.json and end")("no-dropout", "with every dropout ratio 0");
  return rookery::run_program(info, options, argc, argv, [](const rookery::ProgramArguments& arguments) {
    const rookery::Task task{.model = arguments["model"].as<std::string>(),
                             .folder = arguments["folder"].as<std::string>(),
                             .bf16 = arguments.contains("bf16"),
                             .dropout = !arguments.contains("no-dropout")};
    rookery::set_kernel_threads(arguments["threads"].as<int>());
    const auto batches = rookery::read_batches(task.folder / "batches.safetensors");
    return arguments.contains("choose") ? rookery::choose(task, batches) : rookery::serve(task, batches);
  });
}
