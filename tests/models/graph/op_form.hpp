// The first sentence of an operator's description (OpDefinition::description) as data, and ops that are
// compared with it.
#pragma once

#include <algorithm>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "models/base/libraries/format.hpp"
#include "models/graph/op_definition.hpp"

namespace rookery::graph_tests {

// One input or output: "bias?" may be absent, "X…" may be there any number of times.
struct FormTensor {
  std::string name;
  bool optional = false;
  bool repeated = false;
};

struct OpForm {
  std::vector<FormTensor> inputs, outputs;
};

inline std::vector<FormTensor> form_tensors(const std::string& text) {
  static const std::string dots = "…";
  std::vector<FormTensor> tensors;
  const std::regex comma(",\\s+");
  for (std::sregex_token_iterator it(text.begin(), text.end(), comma, -1), end; it != end; ++it) {
    FormTensor tensor{.name = *it};
    if (tensor.name.ends_with(dots)) {
      tensor.name.erase(tensor.name.size() - dots.size());
      tensor.repeated = true;
    }
    if (tensor.name.ends_with('?')) {
      tensor.name.pop_back();
      tensor.optional = true;
    }
    tensors.push_back(tensor);
  }
  return tensors;
}

// nullopt where the description does not begin with "(X, Y?) -> Z", alone or before ": " or "Training form:
// ".
inline std::optional<OpForm> form_of(const std::string& description) {
  static const std::regex form(R"(^\(([^()]+)\) -> ([^:.()]+?)(: [^]+|\nTraining form: [^]+)?$)");
  std::smatch parts;
  if (!std::regex_match(description, parts, form)) return std::nullopt;
  return OpForm{form_tensors(parts[1]), form_tensors(parts[2])};
}

// Says what is wrong with these inputs or outputs of an op, empty where nothing is. `all_optional`: each may
// be absent, but it has its place.
inline std::string disagreement(const std::vector<ValueId>& ids, const std::vector<FormTensor>& form,
                                bool all_optional) {
  const bool repeats = form.back().repeated;
  if (ids.size() > form.size() && !repeats)
    return fmt::format("there are {}, described are {}", ids.size(), form.size());
  for (std::size_t i = 0; i < std::max(form.size(), ids.size()); ++i) {
    const FormTensor& tensor = form.at(std::min(i, form.size() - 1));
    const bool is_there = i < ids.size() && ids[i] != kNoValue;
    const bool may_be_absent = tensor.optional || (all_optional && i < ids.size());
    if (!is_there && !may_be_absent) return fmt::format("{} is absent", tensor.name);
  }
  return {};
}

// The same of an op of a graph.
inline std::string disagreement(const Op& op) {
  const OpDefinition& definition = op_definition(op.type);
  const std::optional<OpForm> form = form_of(definition.description);
  if (!form) return fmt::format("{}: its description has no form", op.type);
  const bool is_gradient = op.attributes.contains("forward");
  const std::string inputs = disagreement(op.inputs, form->inputs, false);
  const std::string outputs = disagreement(op.outputs, form->outputs, is_gradient);
  if (inputs.empty() && outputs.empty()) return {};
  return fmt::format("{} is described as '{}': inputs: {}; outputs: {}", op.type, definition.description,
                     inputs.empty() ? "right" : inputs, outputs.empty() ? "right" : outputs);
}

}  // namespace rookery::graph_tests
