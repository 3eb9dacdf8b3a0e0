#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "fusion/evaluate.hpp"
#include "models/base/json_file.hpp"
#include "models/base/program.hpp"

namespace rookery {
namespace {

const ProgramInfo kInfo{
    .name = "evaluate",
    .summary =
        "measures loss and accuracy of a trained state dict. Model, data, seed and the split into\n"
        "training and validation samples are those it was trained with (the file tells, else\n"
        "node_data/train.json does), unless given here.",
    .example =
        "  evaluate --state trained/trained_state_dict.safetensors\n"
        "  evaluate --state trained/trained_state_dict.safetensors --model cnn_net --data digits"
        " --split train --json",
};

template <typename T>
std::optional<T> given(const ProgramArguments& arguments, const char* option) {
  if (arguments.count(option) == 0) return std::nullopt;
  return arguments[option].as<T>();
}

int run(const ProgramArguments& arguments) {
  const auto split = arguments["split"].as<std::string>();
  const EvaluationRequest request{.state = arguments["state"].as<std::string>(),
                                  .model = given<std::string>(arguments, "model"),
                                  .data = given<std::string>(arguments, "data"),
                                  .seed = given<std::uint64_t>(arguments, "seed"),
                                  .subset = subset_named(split),
                                  .batch = arguments["batch"].as<std::int64_t>(),
                                  .node_data = arguments["node-data"].as<std::string>()};
  const Evaluation result = evaluate(request);
  if (arguments["json"].as<bool>()) {
    const OrderedJson report = {
        {"model", result.model},     {"data", result.data},           {"split", split},
        {"samples", result.samples}, {"loss_name", result.loss_name}, {"loss", result.loss},
        {"correct", result.correct}, {"accuracy", result.accuracy()}};
    fmt::print("{}\n", report.dump());
    return kDone;
  }
  fmt::print("{} on {} ({}, {} samples)\n", result.model, result.data, split, result.samples);
  fmt::print("loss      {:.6g} ({})\n", result.loss, result.loss_name);
  fmt::print("accuracy  {:.2f}% ({} right)\n", result.accuracy(), result.correct);
  return kDone;
}

}  // namespace
}  // namespace rookery

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  rookery::ProgramOptions options;
  options.add_options()("state", po::value<std::string>()->required()->value_name("FILE"),
                        "the state dict, a .safetensors file")(
      "model", po::value<std::string>()->value_name("NAME"), "the model it belongs to")(
      "data", po::value<std::string>()->value_name("NAME"), "digits, csv:FILE or idx:FOLDER")(
      "split", po::value<std::string>()->default_value("validation")->value_name("PART"),
      "validation, train or all")("batch", po::value<std::int64_t>()->default_value(256)->value_name("N"),
                                  "samples computed at a time")(
      "seed", po::value<std::uint64_t>()->value_name("N"), "that drew the split")(
      "node-data", po::value<std::string>()->default_value("./node_data")->value_name("DIR"),
      "the folder of train.json and datasets/")("json", po::bool_switch(), "print one JSON object");
  return rookery::run_program(rookery::kInfo, options, argc, argv, rookery::run);
}
