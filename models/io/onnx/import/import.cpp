// Models that others exported to a Graph. Nothing in the file is trusted.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/io/onnx/exporters/names.hpp"
#include "models/io/onnx/exporters/torch.hpp"
#include "models/io/onnx/format/constants.hpp"
#include "models/io/onnx/format/format.hpp"
#include "models/io/onnx/format/parse.hpp"
#include "models/io/onnx/functions/functions.hpp"
#include "models/io/onnx/functions/inline.hpp"
#include "models/io/onnx/import/operators/operators.hpp"
#include "models/io/onnx/import/weights.hpp"
#include "models/io/onnx/onnx.hpp"

namespace rookery {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::numeric_limits<int>::max();  // protobuf's own limit
constexpr std::size_t kMostProblems = 20;
constexpr int kMaxBranches = 16;  // within one another
constexpr const char* kHowToExport =
    "export with training=TrainingMode.TRAINING, do_constant_folding=False (with dynamo=True: "
    "optimize=False)";

// Every name that a node reads, those in its branches included.
template <typename Visit>
void for_each_read(const onnx::NodeProto& node, const Visit& visit) {
  for (const std::string& input : node.input()) {
    if (!input.empty()) visit(input);
  }
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.type() != onnx::AttributeProto::GRAPH) continue;
    for (const onnx::NodeProto& inner : attribute.g().node()) for_each_read(inner, visit);
    for (const onnx::ValueInfoProto& output : attribute.g().output()) visit(output.name());
  }
}

std::string joined(const std::vector<std::string>& problems) {
  std::string all;
  for (std::size_t i = 0; i < std::min(problems.size(), kMostProblems); ++i) all += "\n  " + problems[i];
  if (problems.size() > kMostProblems) all += fmt::format("\n  and {} more", problems.size() - kMostProblems);
  return all;
}

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

class Importer {
 public:
  Importer(const onnx::GraphProto& in, const std::filesystem::path& folder, std::int64_t opset,
           std::optional<ModuleDescription> module)
      : in_(in),
        module_(std::move(module)),
        external_(folder),
        opset_(opset),
        absent_(parameters_among_inputs(in)),
        graph_(batch_of(in)),
        signature_(signature_of(in)) {
    for (const auto& [name, tensor] : signature_) {
      using enum TorchTensor::Kind;
      if (tensor.kind == kBuffer || tensor.kind == kConstant)
        buffers_.emplace(tensor.name, tensor.persistent);
    }
  }

  OnnxModel read() {
    if (in_.sparse_initializer_size() > 0) throw DataError("sparse initializers are not supported");
    check_texts();
    find_needed();
    if (module_) {
      graph_.keep_modes(counters());
    } else {
      find_modes();
    }
    for (const onnx::ValueInfoProto& input : in_.input())
      attempt("input " + quoted(input.name()), {input.name()}, [&] { add_input(input); });
    for (const onnx::TensorProto& tensor : in_.initializer())
      attempt("initializer " + quoted(tensor.name()), {tensor.name()}, [&] { add_initializer(tensor); });
    add_nodes(in_.node());
    for (const onnx::ValueInfoProto& output : in_.output()) {
      attempt("output " + quoted(output.name()), {}, [&] {
        if (const Operand* made = find(output.name())) graph_.mark_output(*made, output.name());
      });
    }
    if (in_.output_size() == 0) problems_.emplace_back("has no output");
    if (!problems_.empty()) throw DataError(fmt::format("cannot be imported:{}", joined(problems_)));
    OnnxModel model = graph_.finish();
    if (module_) {
      add_extras(model, {module_->state_dict.begin(), module_->state_dict.end()});
      model.module = std::move(module_);
    } else {
      add_extras(model, persistent_buffers());
      model.warnings = warnings(model);
    }
    return model;
  }

 private:
  // What BatchNorm has counted so far.
  StateDict counters() {
    StateDict counters;
    for (const onnx::TensorProto& tensor : in_.initializer()) {
      if (tensor.name().ends_with(kTrackedSuffix) && module_->buffers.contains(tensor.name()))
        counters.emplace(tensor.name(), read_tensor(tensor, external_));
    }
    return counters;
  }

  // What the module's state dict has and its forward does not read, or not as something that is trained.
  void add_extras(OnnxModel& model, const std::set<std::string>& of_state) {
    for (const onnx::TensorProto& tensor : in_.initializer()) {
      if (!of_state.contains(tensor.name()) || model.graph.find(tensor.name())) continue;
      model.extras.emplace(tensor.name(), with_context("initializer " + quoted(tensor.name()),
                                                       [&] { return read_tensor(tensor, external_); }));
    }
  }
  std::set<std::string> persistent_buffers() const {
    std::set<std::string> names;
    for (const auto& [name, persistent] : buffers_) {
      if (persistent) names.insert(name);
    }
    return names;
  }

  // Did BatchNorm stand in evaluation when the file was exported? PyTorch's newer exporter writes every one
  // so, and says in the node's operation what it was.
  static bool is_in_evaluation(const onnx::NodeProto& node) {
    const TorchNode of = torch_node(node);
    if (!of.target.empty()) return of.target.find("no_training") != std::string::npos;
    return std::ranges::none_of(node.attribute(), [](const onnx::AttributeProto& attribute) {
      return attribute.name() == "training_mode" && attribute.i() != 0;
    });
  }

  // Where some BatchNorm is in training and some not, that is how the module was; where none is, the module
  // was exported for inference, and trains all the same.
  void find_modes() {
    for (const onnx::NodeProto& node : in_.node()) {
      if (node.op_type() != "BatchNormalization") continue;
      (is_in_evaluation(node) ? in_evaluation_ : in_training_).push_back(node.name());
    }
    if (!in_training_.empty() && !in_evaluation_.empty()) graph_.keep_modes();
  }

  // What a file that does not describe its module leaves open.
  std::vector<std::string> warnings(const OnnxModel& model) const {
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
    if (!aliases_.empty()) {
      all.push_back(fmt::format("began equal to others and are trained as parameters of their own: {}",
                                fmt::join(aliases_, ", ")));
    }
    all.emplace_back(
        signature_.empty()
            ? "the file does not say what requires no gradient, which embeddings have a padding_idx and "
              "where forward "
              "detaches: all parameters are trained; models/rookery_export.py writes files that say it"
            : "the file does not say what requires no gradient: all parameters are trained; name others in "
              "\"frozen\", or export with models/rookery_export.py");
    return all;
  }

  // Of the module, where the file says what it was like.
  bool is_tensor_of_module(const std::string& name) const {
    const auto buffer = module_->buffers.find(name);
    return module_->parameters.contains(name) || (buffer != module_->buffers.end() && buffer->second);
  }
  // A buffer that is not in the state dict.
  bool is_transient(const std::string& name) const {
    const auto found = buffers_.find(name);
    return found != buffers_.end() && !found->second;
  }
  bool is_trained(const std::string& name) const {
    if (buffers_.contains(name)) return false;
    return !module_ || (module_->parameters.contains(name) && module_->parameters.at(name));
  }

  // Runs a step; what is wrong with it is noted, and what it should have made is missing from then on.
  template <typename Step>
  void attempt(const std::string& what, const std::vector<std::string>& makes, const Step& step) {
    try {
      step();
    } catch (const Error& error) {
      problems_.push_back(fmt::format("{}: {}", what, error.what()));
      missing_.insert(makes.begin(), makes.end());
    }
  }

  // The batch size that the file was exported for, where all inputs begin with one number.
  std::optional<std::int64_t> batch_of(const onnx::GraphProto& graph) const {
    std::optional<std::int64_t> batch;
    std::set<std::string> initializers;
    for (const onnx::TensorProto& tensor : graph.initializer()) initializers.insert(tensor.name());
    for (const onnx::ValueInfoProto& input : graph.input()) {
      const auto& shape = input.type().tensor_type().shape();
      if (shape.dim_size() == 0 || initializers.contains(input.name()) || absent_.contains(input.name()))
        continue;
      if (!shape.dim(0).has_dim_value()) return std::nullopt;
      if (batch && *batch != shape.dim(0).dim_value()) {
        throw DataError(
            "its inputs have different first dimensions, and none is open: export with "
            "dynamic_axes={'INPUT': {0: 'batch'}} for those that have a batch");
      }
      batch = checked_dim(shape.dim(0).dim_value());
    }
    return batch;
  }

  void check_texts() const {
    for (const onnx::NodeProto& node : in_.node()) {
      quoted(node.name());
      for (const std::string& output : node.output()) quoted(output);
    }
    for (const onnx::TensorProto& tensor : in_.initializer()) quoted(tensor.name());
    for (const onnx::ValueInfoProto& input : in_.input()) quoted(input.name());
  }

  // Only what outputs need is imported.
  void find_needed() {
    std::map<std::string, const onnx::NodeProto*> producers;
    for (const onnx::NodeProto& node : in_.node()) {
      for (const std::string& output : node.output()) {
        if (!output.empty() && !producers.emplace(output, &node).second)
          throw DataError(fmt::format("two nodes make {}", quoted(output)));
      }
    }
    std::vector<std::string> open;
    const auto need = [&](const std::string& name) {
      if (needed_.insert(name).second) open.push_back(name);
    };
    for (const onnx::ValueInfoProto& output : in_.output()) need(output.name());
    std::set<const onnx::NodeProto*> seen;
    while (!open.empty()) {
      const auto producer = producers.find(open.back());
      open.pop_back();
      if (producer == producers.end() || !seen.insert(producer->second).second) continue;
      for_each_read(*producer->second, need);
      for (const std::string& input : producer->second->input()) readers_[input].push_back(producer->second);
    }
  }

  void add_input(const onnx::ValueInfoProto& input) {
    const std::string& name = input.name();
    const bool has_data =
        std::ranges::any_of(in_.initializer(), [&](const auto& each) { return each.name() == name; });
    if (has_data || !needed_.contains(name)) return;
    TensorType type = type_of_input(input);
    if (absent_.contains(name)) {
      add_weight({.name = name, .type = type, .data = nullptr, .initializer = {}});
      return;
    }
    for (int axis = 1; axis < type.shape.rank(); ++axis) {
      if (type.shape[axis] == kBatch) {
        throw DataError(
            fmt::format("dimension {} is open ({}); only the first may be: leave it out of dynamic_axes",
                        axis, quoted(input.type().tensor_type().shape().dim(axis).dim_param())));
      }
    }
    if (graph_.fixed_batch() && type.shape.rank() > 0) type.shape[0] = kBatch;
    define(name, graph_.add_input(name, type));
  }

  void add_initializer(const onnx::TensorProto& proto) {
    if (!needed_.contains(proto.name())) return;
    Tensor tensor = read_tensor(proto, external_);
    const bool is_constant =
        module_ ? !is_tensor_of_module(proto.name())
                : is_free_constant(proto.name(), tensor.type()) || is_transient(proto.name());
    if (tensor.type().dtype != DType::kF32 || is_constant) {
      define(proto.name(), Known(std::move(tensor)));
      return;
    }
    const TensorType type = tensor.type();
    add_weight({.name = proto.name(),
                .type = type,
                .data = std::make_shared<const Tensor>(std::move(tensor)),
                .initializer = {},
                .trained = is_trained(proto.name())});
  }

  // Numbers that the exporter made up a name for, and scale and bias of an InstanceNormalization, which are a
  // module's only under its own names.
  bool is_free_constant(const std::string& name, const TensorType& type) const {
    if (!is_made_up(name)) return false;
    if (type.shape.elements() == 1) return true;
    const auto readers = readers_.find(name);
    return readers != readers_.end() && std::ranges::all_of(readers->second, [](const onnx::NodeProto* node) {
             return node->op_type() == "InstanceNormalization";
           });
  }

  void add_weight(Weight weight) {
    weights_.emplace(weight.name, weight.type);
    if (!weight.data) {
      const auto readers = readers_.find(weight.name);
      const bool is_embedding =
          readers != readers_.end() && std::ranges::any_of(readers->second, [&](const onnx::NodeProto* node) {
            return node->op_type() == "Gather" && node->input(0) == weight.name;
          });
      // Weights come after their biases, too: all types are known from the inputs.
      std::map<std::string, TensorType> all;
      for (const onnx::ValueInfoProto& input : in_.input()) {
        if (absent_.contains(input.name())) all.emplace(input.name(), type_of_input(input));
      }
      weight.initializer = usual_initializer(weight.name, weight.type.shape, is_embedding, all);
    }
    const std::string name = weight.name;
    define(name, std::make_shared<const Weight>(std::move(weight)));
  }

  void define(const std::string& name, Operand operand) {
    if (!values_.emplace(name, std::move(operand)).second) throw DataError("is there twice");
  }

  const Operand* find(const std::string& name) const {
    if (missing_.contains(name)) return nullptr;
    if (const auto found = values_.find(name); found != values_.end()) return &found->second;
    fail_dangling(in_, name);
  }

  template <typename Nodes>
  void add_nodes(const Nodes& nodes) {
    for (const onnx::NodeProto& node : nodes) {
      const bool is_needed = depth_ > 0 || std::ranges::any_of(node.output(), [&](const auto& name) {
                               return needed_.contains(name);
                             });
      if (is_needed)
        attempt(node_name(node), {node.output().begin(), node.output().end()}, [&] { add_node(node); });
    }
  }

  void add_node(const onnx::NodeProto& node) {
    const bool is_own = node.domain() == kOnnxDomain;
    if (!node.domain().empty() && node.domain() != "ai.onnx" && !is_own)
      throw DataError(fmt::format("operators of the domain {} are not supported", quoted(node.domain())));
    if (node.op_type() != "If" && !is_own && !is_supported(node.op_type()))
      throw DataError("this operator is not supported");
    std::vector<Operand> inputs;
    bool is_complete = true;
    for (const std::string& name : node.input()) {
      const Operand* operand = name.empty() ? nullptr : find(name);
      is_complete &= name.empty() || operand != nullptr;
      inputs.push_back(operand == nullptr ? Operand() : *operand);
    }
    give_names(node, inputs);
    if (!is_complete) {  // because of a problem that is noted already
      missing_.insert(node.output().begin(), node.output().end());
      return;
    }
    if (node.op_type() == "If") {
      add_branch(node, inputs.at(0));
      return;
    }
    if (add_alias(node, inputs)) return;
    std::vector<Operand> made = make(node, std::move(inputs));
    for (int i = 0; i < node.output_size(); ++i) {
      if (node.output(i).empty()) continue;
      if (std::cmp_less(i, made.size())) {
        define(node.output(i), std::move(made[static_cast<std::size_t>(i)]));
      } else if (needed_.contains(node.output(i))) {
        throw DataError(fmt::format("its output {} is not supported", quoted(node.output(i))));
      }
    }
  }

  std::vector<Operand> make(const onnx::NodeProto& node, std::vector<Operand> inputs) {
    const std::string name =
        node.name().empty() ? fmt::format("{}_{}", node.op_type(), quoted(node.output(0))) : node.name();
    ImportedNode imported{.name = name,
                          .type = node.op_type(),
                          .opset = opset_,
                          .inputs = std::move(inputs),
                          .attributes = {},
                          .outputs = {node.output().begin(), node.output().end()}};
    for (std::string& output : imported.outputs) {
      if (depth_ == 0 && !needed_.contains(output)) output.clear();
    }
    if (node.op_type() == "Constant" && node.domain() != kOnnxDomain) return {constant_of(node)};
    if (node.op_type() == "ConstantOfShape") return {import_filled(graph_, imported, value_of(node))};
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      with_context("attribute " + quoted(attribute.name()), [&] {
        if (!imported.attributes.emplace(attribute.name(), attribute_from(attribute)).second)
          throw DataError("is there twice");
      });
    }
    if (!module_) take_operation(node, imported);
    const bool is_own =
        node.domain() == kOnnxDomain || imported.type == "Detach" || imported.type == "Embedding";
    return is_own ? import_own(graph_, std::move(imported)) : import_node(graph_, std::move(imported));
  }

  // What the operation of PyTorch that a node stands for is more than the node.
  static void take_operation(const onnx::NodeProto& node, ImportedNode& imported) {
    if (node.op_type() == "BatchNormalization")
      imported.attributes["training_mode"] = std::int64_t{is_in_evaluation(node) ? 0 : 1};
    const TorchNode of = torch_node(node);
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

  std::optional<Tensor> value_of(const onnx::NodeProto& node) {
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.name() == "value" && attribute.type() == onnx::AttributeProto::TENSOR)
        return read_tensor(attribute.t(), external_);
    }
    return std::nullopt;
  }

  Operand constant_of(const onnx::NodeProto& node) {
    if (std::optional<Tensor> tensor = value_of(node)) return Known(std::move(*tensor));
    if (node.attribute_size() != 1) throw DataError("has not one value");
    return Known(tensor_of(attribute_from(node.attribute(0))));
  }

  static Tensor tensor_of(const Attribute& value) {
    const auto filled = [](auto elements, Shape shape) {
      using Element = typename decltype(elements)::value_type;
      Tensor tensor(dtype_of<Element>(), shape);
      std::ranges::copy(elements, tensor.as<Element>().begin());
      return tensor;
    };
    if (const auto* integer = std::get_if<std::int64_t>(&value)) return filled(std::vector{*integer}, {});
    if (const auto* number = std::get_if<float>(&value)) return filled(std::vector{*number}, {});
    if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value))
      return filled(*integers, {std::ssize(*integers)});
    if (const auto* numbers = std::get_if<std::vector<float>>(&value))
      return filled(*numbers, {std::ssize(*numbers)});
    throw DataError("a text as value is not supported");
  }

  // The exporter names one of several parameters that begin equal, and gives the others by Identity.
  bool add_alias(const onnx::NodeProto& node, const std::vector<Operand>& inputs) {
    const auto* weight = inputs.empty() ? nullptr : std::get_if<std::shared_ptr<const Weight>>(inputs.data());
    if (node.op_type() != "Identity" || weight == nullptr || node.output_size() != 1) return false;
    if (module_ && !is_tensor_of_module(node.output(0))) return false;
    Weight copy = **weight;
    copy.name = node.output(0);
    copy.trained = is_trained(copy.name);
    if (!module_) aliases_.push_back(copy.name);
    add_weight(std::move(copy));
    return true;
  }

  // A branch that is known before training takes the place of the node.
  void add_branch(const onnx::NodeProto& node, const Operand& condition) {
    const auto* known = std::get_if<Known>(&condition);
    if (known == nullptr || !known->is_constant() || known->at(0).type().dtype != DType::kBool ||
        known->at(0).shape().elements() != 1)
      throw DataError("which branch is taken is not known before training");
    const bool taken = known->at(0).as<bool>()[0];
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.name() != (taken ? "then_branch" : "else_branch")) continue;
      if (attribute.type() != onnx::AttributeProto::GRAPH ||
          attribute.g().output_size() != node.output_size())
        break;
      if (++depth_ > kMaxBranches) throw DataError("branches lie too deep within one another");
      for (const onnx::TensorProto& tensor : attribute.g().initializer())
        define(tensor.name(), Known(read_tensor(tensor, external_)));
      add_nodes(attribute.g().node());
      --depth_;
      for (int i = 0; i < node.output_size(); ++i) {
        const Operand* made = find(attribute.g().output(i).name());
        if (made == nullptr) {
          missing_.insert(node.output(i));
        } else {
          define(node.output(i), *made);
        }
      }
      return;
    }
    throw DataError("has no such branch");
  }

  // Weights that the exporter has computed with lost their names; those of linear layers can be told.
  void give_names(const onnx::NodeProto& node, std::vector<Operand>& inputs) {
    if (module_) return;
    for (std::size_t i = 0; i < inputs.size() && node.op_type() != "Identity"; ++i) {
      const auto* weight = std::get_if<std::shared_ptr<const Weight>>(&inputs[i]);
      if (weight == nullptr || !is_made_up((*weight)->name)) continue;
      const bool is_linear = node.op_type() == "MatMul" && i == 1 && (*weight)->type.shape.rank() == 2;
      const std::string name = is_linear ? name_of_linear(node) : std::string();
      if (name.empty() || weights_.contains(name)) {
        throw DataError(fmt::format(
            "its weight {} has lost the name of the module's parameter that it was computed from: {}",
            quoted((*weight)->name), kHowToExport));
      }
      check_is_no_copy(**weight);
      inputs[i] = turned(**weight, name);
    }
  }

  // A tied parameter would become two.
  void check_is_no_copy(const Weight& weight) const {
    if (!weight.data || is_uniform(*weight.data)) return;
    const Tensor matrix = transposed(*weight.data);
    for (const auto& [name, operand] : values_) {
      const auto* other = std::get_if<std::shared_ptr<const Weight>>(&operand);
      if (other == nullptr || !(*other)->data || is_made_up(name) || (*other)->type != matrix.type())
        continue;
      if (!std::ranges::equal((*other)->data->view().bytes(), matrix.view().bytes())) continue;
      throw DataError(
          fmt::format("its weight {} has lost its name and is {} turned, perhaps the same parameter: {}",
                      quoted(weight.name), quoted(name), kHowToExport));
    }
  }
  static bool is_uniform(const Tensor& tensor) {
    const auto all = tensor.as<float>();
    return std::ranges::all_of(all, [&](float each) { return each == all.front(); });
  }

  // By the bias that is added, which keeps its name, or by the node's own name.
  std::string name_of_linear(const onnx::NodeProto& node) const {
    const auto readers = readers_.find(node.output(0));
    if (readers != readers_.end() && readers->second.size() == 1 && readers->second[0]->op_type() == "Add") {
      for (const std::string& input : readers->second[0]->input()) {
        const auto bias = weights_.find(input);
        if (bias != weights_.end() && bias->second.shape.rank() == 1) return weight_beside(input);
      }
    }
    const std::string module = module_of_node(node.name());
    return module.empty() ? module : module + ".weight";
  }

  // The parameter [out, in] that a file has as [in, out].
  Operand turned(const Weight& weight, const std::string& name) {
    Weight turned{.name = name,
                  .type = {DType::kF32, {weight.type.shape[1], weight.type.shape[0]}},
                  .data = nullptr,
                  .initializer = {}};
    if (weight.data) turned.data = std::make_shared<const Tensor>(transposed(*weight.data));
    weights_.emplace(name, turned.type);
    return graph_.emit(name + ".turned", "Transpose", {std::make_shared<const Weight>(std::move(turned))},
                       {{"perm", std::vector<std::int64_t>{1, 0}}});
  }

  const onnx::GraphProto& in_;  // outlives the importer: both live in import_onnx()
  std::optional<ModuleDescription> module_;
  ExternalData external_;
  std::int64_t opset_;
  std::set<std::string> absent_;  // inputs that are parameters
  GraphImporter graph_;
  std::map<std::string, Operand> values_;
  std::map<std::string, TensorType> weights_;
  std::set<std::string> needed_;
  std::map<std::string, std::vector<const onnx::NodeProto*>> readers_;
  std::set<std::string> missing_;  // could not be made
  std::vector<std::string> problems_;
  TorchSignature signature_;             // of files of PyTorch's newer exporter that have one
  std::map<std::string, bool> buffers_;  // by it: are they persistent?
  std::vector<std::string> in_training_, in_evaluation_;  // nodes of BatchNorm
  std::vector<std::string> aliases_;                      // weights by Identity of others
  int depth_ = 0;
};

bool is_ours(const onnx::ModelProto& model) {
  return std::ranges::any_of(model.metadata_props(),
                             [](const auto& property) { return property.key() == kOnnxVersionKey; });
}

std::int64_t opset_of(const onnx::ModelProto& model) {
  std::int64_t version = 0;
  for (const auto& opset : model.opset_import()) {
    if (opset.domain().empty() || opset.domain() == "ai.onnx") version = opset.version();
  }
  if (version < kOldestOpset || version > kNewestOpset) {
    throw DataError(
        fmt::format("has the operator set {}, supported are {} to {}: export with opset_version=17", version,
                    kOldestOpset, kNewestOpset));
  }
  return version;
}

}  // namespace

OnnxModel import_onnx(const std::filesystem::path& path) {
  const std::string bytes = read_file(path, kMaxFileBytes);
  return with_context(path.string(), [&] {
    onnx::ModelProto model = parse_onnx(bytes);
    if (is_ours(model)) return read_onnx(path);
    if (model.training_info_size() > 0) throw DataError("training graphs are not supported");
    const std::int64_t opset = opset_of(model);
    std::optional<ModuleDescription> module = module_description(model);
    const auto rewrites = module ? std::vector<std::string>() : find_rewrites(model);
    if (!rewrites.empty()) {
      throw DataError(
          fmt::format("was changed by the exporter's optimizer, so that it trains otherwise than the "
                      "module: export with optimize=False, or with torch.onnx.utils.export{}",
                      joined(rewrites)));
    }
    inline_functions(model);
    try {
      return Importer(model.graph(), path.parent_path(), opset, std::move(module)).read();
    } catch (const ConfigError& error) {  // what Graph finds wrong
      throw DataError(error.what());
    }
  });
}

}  // namespace rookery
