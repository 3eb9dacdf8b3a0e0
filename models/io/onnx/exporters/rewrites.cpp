// Traces of the optimizer in files of torch.onnx.export(dynamo=True).
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <set>

#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"
#include "models/io/onnx/exporters/names.hpp"
#include "models/io/onnx/exporters/torch.hpp"

namespace rookery {
namespace {

constexpr const char* kRule = "pkg.onnxscript.rewriter.rule_name";

std::string layer_of(const std::string& parameter) {
  const auto dot = parameter.rfind('.');
  return dot == std::string::npos ? parameter : parameter.substr(0, dot);
}

class Rewrites {
 public:
  explicit Rewrites(const onnx::ModelProto& model)
      : model_(model), graph_(model.graph()), signature_(signature_of(graph_)) {
    for (const onnx::TensorProto& tensor : graph_.initializer()) {
      stored_.insert(tensor.name());
      if (tensor.data_type() == onnx::TensorProto::FLOAT) floats_.insert(tensor.name());
    }
    for (const onnx::ValueInfoProto& input : graph_.input()) stored_.insert(input.name());
  }

  std::vector<std::string> find() {
    for (const onnx::NodeProto& node : graph_.node()) {
      check_rule(node);
      check_merged(node);
    }
    check_lost();
    check_unknown();
    return std::move(problems_);
  }

 private:
  std::vector<std::string> weights_read(const onnx::NodeProto& node) const {
    std::vector<std::string> weights;
    std::ranges::copy_if(node.input(), std::back_inserter(weights),
                         [&](const std::string& name) { return floats_.contains(name); });
    return weights;
  }

  // A node that a rule has put in the place of others keeps the name of one of their weights and loses the
  // rest.
  void check_rule(const onnx::NodeProto& node) {
    const OnnxMetadata metadata = metadata_of(node);
    const auto rule = metadata.find(kRule);
    if (rule == metadata.end()) return;
    was_optimized_ = true;
    const std::vector<std::string> weights = weights_read(node);
    if (weights.empty()) return;
    const TorchNode of = torch_node(node);
    note_reads(of);
    if (!rule->second.starts_with("FuseBatchNorm")) {
      problems_.push_back(fmt::format("{} was rewritten by the exporter's rule {}, which may have changed {}",
                                      in_quotes(layer_of(weights[0])), in_quotes(rule->second),
                                      fmt::join(weights, ", ")));
      return;
    }
    const bool is_named = !of.module.empty() && of.module != layer_of(weights[0]);
    problems_.push_back(fmt::format(
        "BatchNorm {} was folded into the layer before it, under the name of its weight {}",
        is_named ? in_quotes(of.module) : std::string("behind ") + in_quotes(layer_of(weights[0])),
        in_quotes(weights[0])));
  }

  // What the operation reads in the program that the file no longer has.
  void check_merged(const onnx::NodeProto& node) {
    const TorchNode of = torch_node(node);
    if (metadata_of(node).contains(kRule)) return;
    std::vector<std::string> absent;
    std::vector<std::string> instead = weights_read(node);
    for (const std::string& name : of.reads) {
      const auto found = signature_.find(name);
      if (found == signature_.end() || found->second.kind == TorchTensor::Kind::kInput) continue;
      if (!stored_.contains(found->second.name)) absent.push_back(found->second.name);
      std::erase(instead, found->second.name);
    }
    note_reads(of);
    for (std::size_t i = 0; i < absent.size(); ++i) {
      was_optimized_ = true;
      problems_.push_back(i < instead.size()
                              ? fmt::format("{} was merged with {}, which began equal", in_quotes(absent[i]),
                                            in_quotes(instead[i]))
                              : fmt::format("{} was folded into other numbers", in_quotes(absent[i])));
    }
  }

  void note_reads(const TorchNode& node) { read_.insert(node.reads.begin(), node.reads.end()); }

  // Parameters that nothing in the file tells of: the module does not use them, or they were computed with.
  // What was not optimized has Constant nodes, and all float initializers are the module's own.
  void check_lost() {
    if (signature_.empty()) return;
    std::set<std::string> own;
    for (const auto& [name, tensor] : signature_) own.insert(tensor.name);
    const auto is_foreign = [&](const std::string& name) { return !own.contains(name); };
    if (!was_optimized_ && std::ranges::none_of(floats_, is_foreign) && !has_lost_values()) return;
    std::vector<std::string> lost;
    for (const auto& [name, tensor] : signature_) {
      if (tensor.kind == TorchTensor::Kind::kParameter && !stored_.contains(tensor.name) &&
          !read_.contains(name))
        lost.push_back(in_quotes(tensor.name));
    }
    if (!lost.empty()) {
      problems_.push_back(
          fmt::format("{} {} not in the file: computed with beforehand, merged with others, or not used by "
                      "the module's forward",
                      fmt::join(lost, ", "), lost.size() == 1 ? "is" : "are"));
    }
    for (const std::string& name : floats_) {
      if (is_foreign(name) && !is_made_up(name))
        problems_.push_back(
            fmt::format("{} is no parameter of the module but was computed by the exporter, perhaps from one",
                        in_quotes(name)));
    }
  }

  // Whether an operation reads what no operation of the file makes: one of two equal ones was left out.
  bool has_lost_values() const {
    std::set<std::string> made;
    for (const onnx::NodeProto& node : graph_.node()) {
      made.insert(torch_node(node).name);
      made.insert(node.output().begin(), node.output().end());
    }
    return std::ranges::any_of(read_, [&](const std::string& name) {
      return !made.contains(name) && !stored_.contains(name) && !signature_.contains(name);
    });
  }

  // Files of this exporter whose metadata a conversion of the operator set has dropped: what was merged in
  // them cannot be told, unless constants lie in nodes, which the optimizer does not leave there.
  void check_unknown() {
    const bool is_of_torch = model_.producer_name() == "pytorch";
    const bool is_of_program = std::ranges::any_of(
        graph_.node(), [](const onnx::NodeProto& node) { return node.name().starts_with("node_"); });
    const bool has_constants = std::ranges::any_of(
        graph_.node(), [](const onnx::NodeProto& node) { return node.op_type() == "Constant"; });
    if (!is_of_torch || !is_of_program || !signature_.empty() || has_constants) return;
    problems_.emplace_back(
        "the file does not say which of the module's parameters were folded or merged: leave out "
        "opset_version, too");
  }

  const onnx::ModelProto& model_;  // outlives this, as does its graph
  const onnx::GraphProto& graph_;
  TorchSignature signature_;
  std::set<std::string> stored_;  // initializers and inputs
  std::set<std::string> floats_;  // initializers of f32
  std::set<std::string> read_;    // names of the program that remaining nodes read
  bool was_optimized_ = false;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> find_rewrites(const onnx::ModelProto& model) {
  return Rewrites(model).find();
}

}  // namespace rookery
