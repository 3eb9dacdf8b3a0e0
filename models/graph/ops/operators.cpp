#include "models/graph/ops/families.hpp"

#include <algorithm>
#include <unordered_map>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

const std::unordered_map<std::string, OpDefinition>& definitions() {
  static const std::unordered_map<std::string, OpDefinition> table = [] {
    std::unordered_map<std::string, OpDefinition> all;
    for (const auto family :
         {convolution_ops, pooling_ops,   gemm_ops,    matmul_ops,  attention_ops,   reduction_ops,
          batch_norm_ops,  row_norm_ops,  dropout_ops, softmax_ops, elementwise_ops, unary_ops,
          binary_ops,      loss_ops,      shape_ops,   part_ops,    index_ops,       selection_ops,
          resize_ops,      recurrent_ops, layout_ops}) {
      for (OpDefinition& definition : family()) {
        std::string type = definition.type;
        all.emplace(std::move(type), std::move(definition));
      }
    }
    return all;
  }();
  return table;
}

}  // namespace

const OpDefinition& op_definition(const std::string& type) {
  const auto found = definitions().find(type);
  if (found == definitions().end()) throw ConfigError(fmt::format("operator '{}' is not supported", type));
  return found->second;
}

const OpSignature* op_signature(const std::string& type) {
  const auto found = definitions().find(type);
  return found == definitions().end() || !found->second.signature ? nullptr : &*found->second.signature;
}

std::vector<std::string> operators() {
  std::vector<std::string> names;
  for (const auto& [type, definition] : definitions()) names.push_back(type);
  std::ranges::sort(names);
  return names;
}

bool is_view(const Op& op) {
  const OpDefinition& definition = op_definition(op.type);
  return definition.is_view && definition.is_view(op);
}

}  // namespace rookery
