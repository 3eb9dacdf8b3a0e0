#include "clusterize/report/tensor_table.hpp"

#include <algorithm>

#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"

namespace rookery {
namespace {

constexpr std::size_t kMostRows = 40;

struct Row {
  std::string name, kind, shape;
  std::int64_t elements = 0;
  bool trained = false;
};

// A fixed tensor is a parameter unless the file says that it is the module's buffer.
std::string kind_of(const Value& value, const TrainingTask& task) {
  if (value.kind == ValueKind::kParameter) return "parameter";
  if (value.kind == ValueKind::kConstant) return "constant";
  const bool is_buffer = !value.fixed || task.module_buffers.contains(value.name);
  return is_buffer ? "buffer" : "parameter";
}

std::vector<Row> rows_of(const TrainingTask& task) {
  std::vector<Row> rows;
  for (const Value& value : task.graph.values()) {
    if (value.kind == ValueKind::kInput || value.kind == ValueKind::kActivation) continue;
    rows.push_back({.name = value.name,
                    .kind = kind_of(value, task),
                    .shape = value.type.to_string(),
                    .elements = value.type.shape.elements(),
                    .trained = value.kind == ValueKind::kParameter});
  }
  for (const auto& [name, tensor] : task.model_extras) {
    const bool is_buffer = task.module_buffers.contains(name);
    rows.push_back({.name = name,
                    .kind = is_buffer ? "buffer" : "parameter",
                    .shape = tensor.type().to_string(),
                    .elements = tensor.shape().elements()});
  }
  return rows;
}

// "layer1.*" for all of layer1 that is of one kind.
std::vector<Row> by_layer(const std::vector<Row>& rows) {
  std::vector<Row> layers;
  for (const Row& row : rows) {
    const std::string name = row.name.substr(0, row.name.find('.')) + ".*";
    const auto found = std::ranges::find_if(layers, [&](const Row& layer) {
      return layer.name == name && layer.kind == row.kind && layer.trained == row.trained;
    });
    if (found == layers.end()) {
      layers.push_back({name, row.kind, "", row.elements, row.trained});
    } else {
      found->elements += row.elements;
    }
  }
  return layers;
}

}  // namespace

std::string describe_tensors(const TrainingTask& task) {
  std::vector<Row> rows = rows_of(task);
  std::erase_if(rows, [](const Row& row) { return row.kind == "constant"; });
  std::int64_t trained = 0;
  std::int64_t all = 0;
  for (const Row& row : rows) {
    if (row.kind != "parameter") continue;
    all += row.elements;
    if (row.trained) trained += row.elements;
  }
  if (rows.size() > kMostRows) rows = by_layer(rows);
  std::size_t width = 6;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  std::string text;
  if (rows.size() <= kMostRows) {
    text += fmt::format("{:<{}} {:<10} {:<24} {:>12} {}\n", "tensor", width, "kind", "type", "elements",
                        "trained");
    for (const Row& row : rows) {
      text += fmt::format("{:<{}} {:<10} {:<24} {:>12} {}\n", row.name, width, row.kind, row.shape,
                          row.elements, row.trained ? "yes" : "no");
    }
  }
  return text + fmt::format("{} of {} elements of parameters are trained\n\n", trained, all);
}

OrderedJson tensors_json(const TrainingTask& task) {
  OrderedJson list = OrderedJson::array();
  for (const Row& row : rows_of(task)) {
    list.push_back({{"name", row.name},
                    {"kind", row.kind},
                    {"type", row.shape},
                    {"elements", row.elements},
                    {"trained", row.trained}});
  }
  return list;
}

}  // namespace rookery
