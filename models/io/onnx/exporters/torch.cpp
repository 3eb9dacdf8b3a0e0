#include "models/io/onnx/exporters/torch.hpp"

#include <google/protobuf/unknown_field_set.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace rookery {
namespace {

// Fields of onnx.proto since IR version 10.
constexpr int kNodeMetadata = 9;
constexpr int kGraphMetadata = 16;

template <typename Message>
OnnxMetadata metadata_in(const Message& message, int field_number) {
  OnnxMetadata metadata;
  const google::protobuf::UnknownFieldSet& fields = message.unknown_fields();
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::UnknownField& field = fields.field(i);
    if (field.number() != field_number ||
        field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      continue;
    onnx::StringStringEntryProto entry;
    if (entry.ParseFromString(field.length_delimited())) metadata[entry.key()] = entry.value();
  }
  return metadata;
}

bool is_name_letter(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
}

// What stands in `text` between `before` and the next `after`; empty where either is missing.
std::string_view between(std::string_view text, std::string_view before, std::string_view after) {
  const auto begin = text.find(before);
  if (begin == std::string_view::npos) return {};
  text.remove_prefix(begin + before.size());
  const auto end = text.find(after);
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end);
}

// All names behind a '%'.
std::vector<std::string> names_read(std::string_view text) {
  std::vector<std::string> names;
  for (auto at = text.find('%'); at != std::string_view::npos; at = text.find('%', at)) {
    const auto end =
        std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(++at), text.end(), is_name_letter);
    names.emplace_back(text.begin() + static_cast<std::ptrdiff_t>(at), end);
  }
  return names;
}

// "layers.0.norm1" of "['', 'layers', 'layers.0', 'layers.0.norm1', 'layer_norm_1']": the last but one.
std::string innermost_module(std::string_view scopes) {
  std::vector<std::string> all;
  for (auto at = scopes.find('\''); at != std::string_view::npos; at = scopes.find('\'', at)) {
    const auto end = scopes.find('\'', at + 1);
    if (end == std::string_view::npos) break;
    all.emplace_back(scopes.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return all.size() < 2 ? std::string() : all[all.size() - 2];
}

// Parts of "(%a, [1, 2], True)", whose brackets are balanced.
std::vector<std::string> arguments_in(std::string_view text) {
  std::vector<std::string> parts{""};
  int depth = 0;
  for (const char letter : text) {
    if (letter == ')' || letter == ']') --depth;
    if (depth == 0 && letter == ')') break;
    if (depth == 1 && letter == ',') {
      parts.emplace_back();
    } else if (depth > 1 || (depth == 1 && letter != ' ')) {
      parts.back() += letter;
    }
    if (letter == '(' || letter == '[') ++depth;
  }
  return parts;
}

std::string value_or_nothing(const OnnxMetadata& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string() : found->second;
}

// "p_body_1_weight: PARAMETER target='body.1.weight'", "add: BUFFER_MUTATION target='steps'".
struct SignatureLine {
  std::string name;  // in the program
  std::string kind;
  std::string target;  // the module's name of it
  bool is_persistent = true;
};

std::vector<SignatureLine> signature_lines(const onnx::GraphProto& graph) {
  const std::string text =
      value_or_nothing(metadata_of(graph), "pkg.torch.export.ExportedProgram.graph_signature");
  std::vector<SignatureLine> lines;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const auto colon = line.find(": ");
    if (colon == std::string_view::npos) continue;
    lines.push_back({.name = std::string(line.substr(0, colon)),
                     .kind = std::string(line.substr(colon + 2, line.find(' ', colon + 2) - colon - 2)),
                     .target = std::string(between(line, "target='", "'")),
                     .is_persistent = line.find("persistent=False") == std::string_view::npos});
  }
  return lines;
}

}  // namespace

OnnxMetadata metadata_of(const onnx::NodeProto& node) {
  return metadata_in(node, kNodeMetadata);
}

OnnxMetadata metadata_of(const onnx::GraphProto& graph) {
  return metadata_in(graph, kGraphMetadata);
}

TorchSignature signature_of(const onnx::GraphProto& graph) {
  using enum TorchTensor::Kind;
  static const std::map<std::string_view, TorchTensor::Kind> kinds{
      {"PARAMETER", kParameter}, {"BUFFER", kBuffer}, {"CONSTANT_TENSOR", kConstant}, {"USER_INPUT", kInput}};
  TorchSignature signature;
  for (const SignatureLine& line : signature_lines(graph)) {
    const auto found = kinds.find(line.kind);
    if (found == kinds.end()) continue;
    signature[line.name] = {
        .kind = found->second,
        .name = line.target,
        .persistent = found->second != kConstant && found->second != kInput && line.is_persistent};
  }
  return signature;
}

std::vector<std::string> changed_tensors(const onnx::GraphProto& graph) {
  std::vector<std::string> changed;
  for (const SignatureLine& line : signature_lines(graph)) {
    if (line.kind == "BUFFER_MUTATION" || line.kind == "PARAMETER_MUTATION") changed.push_back(line.target);
  }
  return changed;
}

// "%layer_norm : [num_users=1] = call_function[target=torch.ops.aten.layer_norm.default](args = (%mean, …".
TorchNode torch_node(const onnx::NodeProto& node) {
  const OnnxMetadata metadata = metadata_of(node);
  const std::string text = value_or_nothing(metadata, "pkg.torch.onnx.fx_node");
  TorchNode made;
  made.name = between(text, "%", " :");
  made.target = between(text, "[target=", "]");
  const auto arguments = text.find("](args = ");
  if (arguments != std::string::npos) {
    made.reads = names_read(std::string_view(text).substr(arguments));
    made.arguments =
        arguments_in(std::string_view(text).substr(arguments + std::string_view("](args = ").size()));
  }
  made.module = innermost_module(value_or_nothing(metadata, "pkg.torch.onnx.name_scopes"));
  return made;
}

}  // namespace rookery
