#include "clusterize/list_models.hpp"

#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/graph/passes/cost.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/stage.hpp"
#include "models/runtime/executable.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {
namespace {

ModelFigures figures_of(const ZooModel& model, std::int64_t batch_size) {
  NamedOptions options(model.name);
  Graph graph = model.build(options);
  ModelFigures figures{.name = model.name, .summary = model.summary, .options = options.asked()};
  for (const OpCost& cost : op_costs(graph, 1)) {
    figures.parameters += cost.parameters;
    figures.forward_flops += cost.forward_flops;
  }
  add_loss(graph, model.loss);
  CompileOptions compiled;
  compiled.training_sizes = {batch_size};
  compiled.kernels = choose_kernels(graph, batch_size);
  figures.training_bytes = memory_use(cut(graph, std::vector<OpId>{0}).front(), compiled).total();
  return figures;
}

}  // namespace

std::vector<ModelFigures> zoo_figures(std::int64_t batch_size) {
  std::vector<ModelFigures> all;
  for (const ZooModel& model : zoo()) all.push_back(figures_of(model, batch_size));
  return all;
}

std::string describe_models(const std::vector<ModelFigures>& models, std::int64_t batch_size) {
  std::string text =
      fmt::format("{:<15}{:>12}{:>12}{:>12}\n{:<15}{:>12}{:>12}{:>12}\n", "model", "parameters", "GFLOP",
                  "GB", "", "(million)", "a sample", fmt::format("batch {}", batch_size));
  for (const ModelFigures& model : models) {
    text += fmt::format("{:<15}{:>12.3f}{:>12.4g}{:>12.3f}  {}\n", model.name,
                        static_cast<double>(model.parameters) / 1e6, model.forward_flops / 1e9,
                        static_cast<double>(model.training_bytes) / 1e9, model.summary);
    if (!model.options.empty()) text += fmt::format("{:<15}{}\n", "", fmt::join(model.options, "&"));
  }
  text +=
      "GFLOP: forward; training takes about three times as many. GB: to train all of it on one machine with "
      "Adam.\nOptions follow the name, as in resnet18?image_size=32&classes=10.\n";
  return text;
}

OrderedJson to_json(const std::vector<ModelFigures>& models, std::int64_t batch_size) {
  OrderedJson list = OrderedJson::array();
  for (const ModelFigures& model : models) {
    list.push_back({{"name", model.name},
                    {"summary", model.summary},
                    {"options", model.options},
                    {"parameters", model.parameters},
                    {"forward_flops", model.forward_flops},
                    {"batch_size", batch_size},
                    {"training_bytes", model.training_bytes}});
  }
  return list;
}

}  // namespace rookery
