#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "fusion/evaluate.hpp"
#include "models/base/files/json_file.hpp"
#include "models/base/machine/processors.hpp"
#include "models/base/process/program.hpp"
#include "models/base/process/team_waits.hpp"
#include "models/base/process/threads_option.hpp"
#include "models/kernels/threads.hpp"
#include "models/zoo/open_model.hpp"

namespace rookery {
namespace {

const ProgramInfo kInfo{
    .name = "evaluate",
    .summary =
        "measures loss and accuracy of a trained model: a state dict (.safetensors, .pt), a model\n"
        "(.onnx), a checkpoint of a run that may still go on, or what the providers of a cluster\n"
        "saved. Model, data, seed and the split into training and validation samples are those it was\n"
        "trained with (the file tells, else node_data/train.json does), unless given here.",
    .example =
        "  evaluate --state trained/trained_state_dict.safetensors\n"
        "  evaluate --state trained/trained_model.onnx --split all\n"
        "  evaluate --state node_data/cluster_0\n"
        "  evaluate --state node_data/checkpoints/500\n"
        "  evaluate --state trained/trained_state_dict.safetensors --model cnn_net --data digits"
        " --split train --json\n"
        "  evaluate --state trained/trained_state_dict.pt --outputs predictions.safetensors",
};

template <typename T>
std::optional<T> given(const ProgramArguments& arguments, const char* option) {
  if (arguments.count(option) == 0) return std::nullopt;
  return arguments[option].as<T>();
}

// `correct` and `accuracy` where the targets of a loss are class indices; `losses` where there are several.
OrderedJson report_of(const Evaluation& result, const std::string& split) {
  OrderedJson report = {{"model", result.model},     {"data", result.data},           {"split", split},
                        {"samples", result.samples}, {"loss_name", result.loss_name}, {"loss", result.loss}};
  const auto add_hits = [](OrderedJson& to, const LossResult& part) {
    to["correct"] = part.correct;
    to["accuracy"] = *part.accuracy();
  };
  if (const LossResult* classifier = result.classifier()) add_hits(report, *classifier);
  for (const auto& [name, part] : result.losses) {
    if (result.losses.size() == 1) break;
    OrderedJson entry{{"name", name}, {"loss", part.loss}};
    if (part.accuracy()) add_hits(entry, part);
    report["losses"].push_back(std::move(entry));
  }
  if (result.decoded)
    report["decoded"] = {{"right", result.decoded->right}, {"percent", result.decoded->percent()}};
  return report;
}

// Where the state is one.
std::string checkpoint_text(const Evaluation& result) {
  return result.checkpoint_step ? fmt::format(" after step {}", *result.checkpoint_step) : "";
}

std::optional<std::string> model_of(const ProgramArguments& arguments) {
  std::optional<std::string> model = given<std::string>(arguments, "model");
  if (model) model = model_name_in(arguments["node-data"].as<std::string>(), *model);
  return model;
}

int run(const ProgramArguments& arguments) {
  const auto split = arguments["split"].as<std::string>();
  set_kernel_threads(threads_of(arguments).value_or(usable_processors()));
  const EvaluationRequest request{.state = arguments["state"].as<std::string>(),
                                  .model = model_of(arguments),
                                  .data = given<std::string>(arguments, "data"),
                                  .seed = given<std::uint64_t>(arguments, "seed"),
                                  .subset = subset_named(split),
                                  .batch = arguments["batch"].as<std::int64_t>(),
                                  .node_data = arguments["node-data"].as<std::string>(),
                                  .outputs = given<std::string>(arguments, "outputs").value_or("")};
  const Evaluation result = evaluate(request);
  if (arguments["json"].as<bool>()) {
    OrderedJson report = report_of(result, split);
    if (result.checkpoint_step) {
      report["step"] = *result.checkpoint_step;
      report["checkpoint"] = request.state.string();
    }
    fmt::print("{}\n", report.dump());
    return kDone;
  }
  fmt::print("{}{} on {} ({}, {} samples)\n", result.model, checkpoint_text(result), result.data, split,
             result.samples);
  fmt::print("loss      {:.6g} ({})\n", result.loss, result.loss_name);
  for (const auto& [name, part] : result.losses) {
    const std::string of = result.losses.size() == 1 ? "" : "  " + name;
    if (!of.empty()) fmt::print("loss      {:.6g}{}\n", part.loss, of);
    if (const auto accuracy = part.accuracy())
      fmt::print("accuracy  {:.2f}% ({} of {} right){}\n", *accuracy, part.correct, part.positions, of);
  }
  if (const auto& decoded = result.decoded)
    fmt::print("decoded   {:.2f}% ({} of {} sequences right)\n", decoded->percent(), decoded->right,
               decoded->sequences);
  return kDone;
}

}  // namespace
}  // namespace rookery

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  rookery::let_teams_sleep(argv);
  rookery::ProgramOptions options;
  options.add_options()(
      "state", po::value<std::string>()->required()->value_name("PATH"),
      "a .safetensors, .pt or .onnx file; a folder cluster_C, or that of one of its stages; the folder of a "
      "checkpoint")("model", po::value<std::string>()->value_name("NAME"),
                    "the model that it is a state of: a name, or an .onnx file")(
      "data", po::value<std::string>()->value_name("NAME"), "the data set, as train.json names it")(
      "split", po::value<std::string>()->default_value("validation")->value_name("PART"),
      "validation, train or all")("batch", po::value<std::int64_t>()->default_value(256)->value_name("N"),
                                  "samples per batch")("seed", po::value<std::uint64_t>()->value_name("N"),
                                                       "the seed that drew the split")(
      "outputs", po::value<std::string>()->value_name("FILE"),
      "write the model's outputs for all these samples to this .safetensors file")(
      "node-data", po::value<std::string>()->default_value("./node_data")->value_name("DIR"),
      "the folder of train.json and datasets/")("json", po::bool_switch(), "print one JSON object");
  rookery::add_threads_option(options,
                              "threads for arithmetic; without it one per processor that there is to use");
  return rookery::run_program(rookery::kInfo, options, argc, argv, rookery::run);
}
