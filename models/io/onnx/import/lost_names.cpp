#include "models/io/onnx/import/lost_names.hpp"

#include <onnx/onnx_pb.h>

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"
#include "models/io/onnx/exporters/names.hpp"

namespace rookery {
namespace {

constexpr const char* kHowToExport =
    "export with training=TrainingMode.PRESERVE, do_constant_folding=False (with dynamo=True: "
    "optimize=False)";

Tensor transposed(const Tensor& matrix) {
  const std::int64_t rows = matrix.shape()[0];
  const std::int64_t columns = matrix.shape()[1];
  Tensor turned(DType::kF32, {columns, rows});
  const auto from = matrix.as<float>();
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto row = i / static_cast<std::size_t>(columns);
    const auto column = i % static_cast<std::size_t>(columns);
    turned.as<float>()[column * static_cast<std::size_t>(rows) + row] = from[i];
  }
  return turned;
}

bool is_uniform(const Tensor& tensor) {
  const auto all = tensor.as<float>();
  return std::ranges::all_of(all, [&](float each) { return each == all.front(); });
}

std::string name_of_linear(const onnx::NodeProto& node, const NeededNames& needed,
                           const std::map<std::string, TensorType>& weights) {
  if (node.output_size() == 0) return "";
  const auto& readers = needed.readers(node.output(0));
  if (readers.size() == 1 && readers[0]->op_type() == "Add") {
    for (const std::string& input : readers[0]->input()) {
      const auto bias = weights.find(input);
      if (bias != weights.end() && bias->second.shape.rank() == 1) return weight_beside(input);
    }
  }
  const std::string module = module_of_node(node.name());
  return module.empty() ? module : module + ".weight";
}

}  // namespace

std::string parameter_of_linear(const onnx::NodeProto& node, std::size_t position, const Weight& weight,
                                const NeededNames& needed, const std::map<std::string, TensorType>& weights) {
  const bool is_linear = node.op_type() == "MatMul" && position == 1 && weight.type.shape.rank() == 2;
  std::string name = is_linear ? name_of_linear(node, needed, weights) : std::string();
  if (name.empty() || weights.contains(name)) {
    throw DataError(
        fmt::format("its weight {} has lost the name of the module's parameter that it was computed from: {}",
                    in_quotes(weight.name), kHowToExport));
  }
  return name;
}

void check_is_no_copy(const Weight& weight, const std::map<std::string, Operand>& operands) {
  if (!weight.data || is_uniform(*weight.data)) return;
  const Tensor matrix = transposed(*weight.data);
  for (const auto& [name, operand] : operands) {
    const auto* other = std::get_if<std::shared_ptr<const Weight>>(&operand);
    if (other == nullptr || !(*other)->data || is_made_up(name) || (*other)->type != matrix.type()) continue;
    if (!std::ranges::equal((*other)->data->view().bytes(), matrix.view().bytes())) continue;
    throw DataError(
        fmt::format("its weight {} has lost its name and is {} turned, perhaps the same parameter: {}",
                    in_quotes(weight.name), in_quotes(name), kHowToExport));
  }
}

Weight turned(const Weight& weight, const std::string& name) {
  Weight turned{.name = name,
                .type = {DType::kF32, {weight.type.shape[1], weight.type.shape[0]}},
                .data = nullptr,
                .initializer = {}};
  if (weight.data) turned.data = std::make_shared<const Tensor>(transposed(*weight.data));
  return turned;
}

}  // namespace rookery
