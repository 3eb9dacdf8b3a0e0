#include "models/io/onnx/import/exported_module.hpp"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/io/onnx/format/format.hpp"

namespace rookery {
namespace {

// Did BatchNorm stand in evaluation when the file was exported? PyTorch's newer exporter writes every one
// so, and says in the node's operation what it was.
bool is_in_evaluation(const onnx::NodeProto& node) {
  const TorchNode of = torch_node(node);
  if (!of.target.empty()) return of.target.find("no_training") != std::string::npos;
  return std::ranges::none_of(node.attribute(), [](const onnx::AttributeProto& attribute) {
    return attribute.name() == "training_mode" && attribute.i() != 0;
  });
}

std::string module_of_tensor(const std::string& name) {
  return name.substr(0, std::min(name.rfind('.'), name.size()));
}

// Arguments that the exporter drops.
void check_arguments(const TorchNode& of) {
  const auto is_given = [&](std::string_view target, std::size_t position, std::string_view usual) {
    return of.target.starts_with(target) && of.arguments.size() > position && of.arguments[position] != usual;
  };
  if (is_given("torch.ops.aten.embedding.", 3, "False"))
    throw DataError("scale_grad_by_freq is not supported: leave it out");
  if (is_given("torch.ops.aten.avg_pool2d.", 6, "None"))
    throw DataError("divisor_override is not in the file: leave it out, and multiply what comes out");
}

}  // namespace

ExportedModule::ExportedModule(const onnx::GraphProto& graph, std::optional<ModuleDescription> description)
    : description_(std::move(description)),
      signature_(signature_of(graph)),
      changed_(changed_tensors(graph)) {
  for (const auto& [name, tensor] : signature_) {
    using enum TorchTensor::Kind;
    if (tensor.kind == kBuffer || tensor.kind == kConstant) buffers_.emplace(tensor.name, tensor.persistent);
  }
  for (const onnx::NodeProto& node : graph.node()) {
    if (node.op_type() != "BatchNormalization") continue;
    (is_in_evaluation(node) ? in_evaluation_ : in_training_).push_back(node.name());
    if (node.input_size() > int{kBatchNormMean}) norms_.insert(module_of_tensor(node.input(kBatchNormMean)));
  }
}

bool ExportedModule::describes(const std::string& name) const {
  const auto buffer = description_->buffers.find(name);
  return description_->parameters.contains(name) || (buffer != description_->buffers.end() && buffer->second);
}

bool ExportedModule::may_have(const std::string& name) const {
  if (description_) return describes(name);
  return signature_.empty() ||
         std::ranges::any_of(signature_, [&](const auto& entry) { return entry.second.name == name; });
}

std::vector<std::string> ExportedModule::lost_moves() const {
  if (description_) return {};
  std::vector<std::string> lost;
  std::ranges::copy_if(changed_, std::back_inserter(lost),
                       [&](const std::string& name) { return !norms_.contains(module_of_tensor(name)); });
  return lost;
}

bool ExportedModule::is_transient(const std::string& name) const {
  const auto found = buffers_.find(name);
  return found != buffers_.end() && !found->second;
}

bool ExportedModule::is_trained(const std::string& name) const {
  if (buffers_.contains(name)) return false;
  return !description_ || (description_->parameters.contains(name) && description_->parameters.at(name));
}

std::set<std::string> ExportedModule::buffer_names() const {
  std::set<std::string> names;
  for (const auto& [name, persistent] : description_ ? description_->buffers : buffers_) names.insert(name);
  return names;
}

std::set<std::string> ExportedModule::state_names() const {
  if (description_) return {description_->state_dict.begin(), description_->state_dict.end()};
  std::set<std::string> names;
  for (const auto& [name, persistent] : buffers_) {
    if (persistent) names.insert(name);
  }
  return names;
}

bool ExportedModule::keeps_modes() const {
  return description_ || (!in_training_.empty() && !in_evaluation_.empty());
}

bool ExportedModule::is_counter(const std::string& name) const {
  return description_ && name.ends_with(kTrackedSuffix) && description_->buffers.contains(name);
}

std::vector<std::string> ExportedModule::warnings(const OnnxModel& model,
                                                  const std::vector<std::string>& aliases,
                                                  const std::vector<std::string>& found_names) const {
  const Graph& graph = model.graph;
  std::vector<std::string> all;
  std::vector<std::string> absent;
  for (const auto& [name, tensor] : signature_) {
    if (tensor.persistent && !graph.find(tensor.name) && !model.extras.contains(tensor.name) &&
        !tensor.name.ends_with(kTrackedSuffix))
      absent.push_back(tensor.name);
  }
  if (!absent.empty()) {
    all.push_back(
        fmt::format("the file lacks what forward does not read, and other names of tied tensors, so that "
                    "the state dict that comes back will not have them: {}",
                    fmt::join(absent, ", ")));
  }
  if (in_training_.empty() && !in_evaluation_.empty()) {
    all.push_back(
        fmt::format("BatchNorm was exported in eval(), but trains by the statistics of each batch: {}",
                    fmt::join(in_evaluation_, ", ")));
  }
  std::vector<std::string> unusual;
  for (const ValueId id : graph.parameters()) {
    const std::string& name = graph.value(id).name;
    const std::string last = name.substr(name.rfind('.') + 1);
    if (signature_.empty() && last.find("weight") == std::string::npos &&
        last.find("bias") == std::string::npos)
      unusual.push_back(name);
  }
  if (!unusual.empty()) {
    all.push_back(
        fmt::format("trained, though perhaps buffers of the module (then name them in \"frozen\"): {}",
                    fmt::join(unusual, ", ")));
  }
  if (!aliases.empty()) {
    all.push_back(fmt::format("began equal to others and are trained as parameters of their own: {}",
                              fmt::join(aliases, ", ")));
  }
  if (!found_names.empty()) {
    all.push_back(fmt::format(
        "taken for weights of linear layers that the exporter has turned (where forward computes them, as "
        "weight_norm and masks do, export with do_constant_folding=False): {}",
        fmt::join(found_names, ", ")));
  }
  const auto has = [&](const char* type) {
    return std::ranges::find(graph.ops(), type, &Op::type) != graph.ops().end();
  };
  const bool is_traced = signature_.empty();
  all.push_back(fmt::format(
      "the file does not say what forward computes under torch.no_grad() or only once, what it changes and "
      "counts"
      "{}{}{}, and which gradients are the module's own (autograd.Function, hooks): models/rookery_export.py "
      "writes "
      "files that say it",
      is_traced ? ", where it detaches, which embeddings have a padding_idx or scale_grad_by_freq, which "
                  "tensors the "
                  "state dict has"
                : ", if the exporter has optimized it where forward detaches",
      is_traced && !has("Dropout") ? ", whether it had Dropout (torch.onnx.utils.export drops it but with "
                                     "training=TrainingMode.PRESERVE)"
                                   : "",
      is_traced && has("Softplus") ? ", another threshold of softplus() than 20" : ""));
  return all;
}

void take_operation(const onnx::NodeProto& node, ImportedNode& imported) {
  if (node.op_type() == "BatchNormalization") {
    const auto momentum = imported.attributes.find("momentum");
    const bool is_cumulative = momentum != imported.attributes.end() &&
                               (momentum->second == Attribute(0.0F) || momentum->second == Attribute(1.0F));
    if (is_cumulative)
      throw DataError(
          "its momentum is 0 or 1, as of a cumulative mean (momentum=None): give BatchNorm a number");
    imported.attributes["training_mode"] = std::int64_t{is_in_evaluation(node) ? 0 : 1};
  }
  const TorchNode of = torch_node(node);
  check_arguments(of);
  if (node.op_type() == "Identity" && of.target.starts_with("torch.ops.aten.detach"))
    imported.type = "Detach";
  if (node.op_type() != "Gather" || !of.target.starts_with("torch.ops.aten.embedding.")) return;
  std::int64_t padding = -1;
  if (of.arguments.size() > 2) {
    const std::string& text = of.arguments[2];
    std::from_chars(text.data(), text.data() + text.size(), padding);
  }
  if (padding < 0) return;
  imported.type = "Embedding";
  imported.attributes = {{"padding_idx", padding}};
}

}  // namespace rookery
