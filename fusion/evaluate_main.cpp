#include "fusion/evaluate.hpp"
#include "models/base/files/json_file.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/machine/processors.hpp"
#include "models/base/process/program.hpp"
#include "models/base/process/team_waits.hpp"
#include "models/base/process/threads_option.hpp"
#include "models/kernels/threads.hpp"
#include "models/zoo/open_model.hpp"

namespace rookery {
namespace {

const ProgramInfo kEvaluateInfo{
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
        "  evaluate --state s3://bucket/runs/digits/500\n"
        "  evaluate --state trained/trained_state_dict.safetensors --model cnn_net --data digits"
        " --split train --json\n"
        "  evaluate --state trained/trained_state_dict.pt --outputs predictions.safetensors\n"
        "  evaluate --state trained/trained_state_dict.safetensors --per-class\n"
        "  evaluate --state s3://bucket/models/digits/trained_state_dict.safetensors"
        " --data images:s3://bucket/pets",
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

OrderedJson json_of(const Confusion& confusion) {
  OrderedJson report;
  for (std::size_t i = 0; i < confusion.classes.size(); ++i) {
    OrderedJson row;
    for (std::size_t k = 0; k < confusion.classes.size(); ++k) row.push_back(confusion.count(i, k));
    const auto percent = [](std::optional<double> share) {
      return share ? OrderedJson(100 * *share) : OrderedJson();
    };
    report.push_back({{"class", confusion.classes[i]},
                      {"samples", confusion.samples(i)},
                      {"right", confusion.count(i, i)},
                      {"recall", percent(confusion.recall(i))},
                      {"precision", percent(confusion.precision(i))},
                      {"taken_for", row}});
  }
  return report;
}

// A row a class; the matrix beside it where it is narrow enough to be read.
std::string text_of(const Confusion& confusion) {
  constexpr std::size_t kMostColumns = 10;
  constexpr std::size_t kName = 24;
  const std::size_t classes = confusion.classes.size();
  const bool has_matrix = classes <= kMostColumns;
  const auto percent = [](std::optional<double> share) {
    return share ? fmt::format("{:.2f}%", 100 * *share) : std::string("-");
  };
  std::string text = fmt::format("{:<{}} {:>8} {:>9} {:>9}{}\n", "class", kName, "samples", "recall",
                                 "precision", has_matrix ? "   taken for" : "");
  for (std::size_t i = 0; i < classes; ++i) {
    text += fmt::format("{:<{}.{}} {:>8} {:>9} {:>9}", confusion.classes[i], kName, kName,
                        confusion.samples(i), percent(confusion.recall(i)), percent(confusion.precision(i)));
    for (std::size_t k = 0; has_matrix && k < classes; ++k)
      text += fmt::format(" {:>6}", confusion.count(i, k));
    text += "\n";
  }
  return text;
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
                                  .per_class = arguments["per-class"].as<bool>(),
                                  .outputs = given<std::string>(arguments, "outputs").value_or("")};
  const Evaluation result = evaluate(request);
  if (arguments["json"].as<bool>()) {
    OrderedJson report = report_of(result, split);
    if (result.confusion) report["classes"] = json_of(*result.confusion);
    if (result.checkpoint_step) {
      report["step"] = *result.checkpoint_step;
      report["checkpoint"] = request.state.string();
    }
    fmt::print("{}\n", report.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
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
  if (result.confusion) fmt::print("{}", text_of(*result.confusion));
  return kDone;
}

}  // namespace

int evaluate_main(int argc, char** argv) {
  namespace po = boost::program_options;
  let_teams_sleep(argv);
  ProgramOptions options;
  options.add_options()(
      "state", po::value<std::string>()->required()->value_name("PATH"),
      "a .safetensors, .pt or .onnx file, the first two also by an address (https://…, s3://…); a folder "
      "cluster_C, or that of one of its stages; the folder of a checkpoint, "
      "also in a bucket")("model", po::value<std::string>()->value_name("NAME"),
                          "the model that it is a state of: a name, or an .onnx file")(
      "data", po::value<std::string>()->value_name("NAME"), "the data set, as train.json names it")(
      "split", po::value<std::string>()->default_value("validation")->value_name("PART"),
      "validation, train or all")("batch", po::value<std::int64_t>()->default_value(256)->value_name("N"),
                                  "samples per batch")("seed", po::value<std::uint64_t>()->value_name("N"),
                                                       "the seed that drew the split")(
      "outputs", po::value<std::string>()->value_name("FILE"),
      "write the model's outputs for all these samples to this .safetensors file")(
      "node-data", po::value<std::string>()->default_value("./node_data")->value_name("DIR"),
      "the folder of train.json and datasets/")(
      "per-class", po::bool_switch(),
      "also tell recall and precision of each class, and which are taken for which")(
      "json", po::bool_switch(), "print one JSON object");
  add_threads_option(options, "threads for arithmetic; without it one per processor that there is to use");
  return run_program(kEvaluateInfo, options, argc, argv, run);
}

}  // namespace rookery
