// Models that others exported to a Graph. Nothing in the file is trusted.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/io/onnx/exporters/names.hpp"
#include "models/io/onnx/exporters/torch.hpp"
#include "models/io/onnx/format/constants.hpp"
#include "models/io/onnx/format/format.hpp"
#include "models/io/onnx/format/parse.hpp"
#include "models/io/onnx/functions/functions.hpp"
#include "models/io/onnx/functions/inline.hpp"
#include "models/io/onnx/import/exported_module.hpp"
#include "models/io/onnx/import/lost_names.hpp"
#include "models/io/onnx/import/needed.hpp"
#include "models/io/onnx/import/operators/operators.hpp"
#include "models/io/onnx/import/weights.hpp"
#include "models/io/onnx/onnx.hpp"

namespace rookery {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::numeric_limits<int>::max();  // protobuf's own limit
constexpr std::size_t kMostProblems = 20;                                 // a message that a screen holds
// Branches within one another. Exporters write few; it bounds the recursion that a file can cause.
constexpr int kMaxBranches = 16;

std::string joined(const std::vector<std::string>& problems) {
  std::string all;
  for (std::size_t i = 0; i < std::min(problems.size(), kMostProblems); ++i) all += "\n  " + problems[i];
  if (problems.size() > kMostProblems) all += fmt::format("\n  and {} more", problems.size() - kMostProblems);
  return all;
}

class Importer {
 public:
  Importer(const onnx::GraphProto& in, const std::filesystem::path& folder,
           std::optional<ModuleDescription> description)
      : in_(in),
        module_(in, std::move(description)),
        external_(folder),
        absent_(parameters_among_inputs(in)),
        graph_(batch_of(in)) {}

  OnnxModel read() {
    if (in_.sparse_initializer_size() > 0) throw DataError("sparse initializers are not supported");
    check_texts();
    needed_.emplace(in_);
    if (module_.keeps_modes()) graph_.keep_modes(counters());
    for (const onnx::ValueInfoProto& input : in_.input())
      attempt("input " + in_quotes(input.name()), {input.name()}, [&] { add_input(input); });
    for (const onnx::TensorProto& tensor : in_.initializer())
      attempt("initializer " + in_quotes(tensor.name()), {tensor.name()}, [&] { add_initializer(tensor); });
    add_nodes(in_.node());
    if (const auto moved = module_.lost_moves(); !moved.empty()) {
      problems_.push_back(fmt::format("forward changes {}, which the file does not: leave it out of forward",
                                      fmt::join(moved, ", ")));
    }
    for (const onnx::ValueInfoProto& output : in_.output()) {
      attempt("output " + in_quotes(output.name()), {}, [&] {
        if (const Operand* made = find(output.name())) graph_.mark_output(*made, output.name());
      });
    }
    if (in_.output_size() == 0) problems_.emplace_back("has no output");
    if (!problems_.empty()) throw DataError(refusal());
    OnnxModel model = graph_.finish();
    add_extras(model);
    model.module = module_.description();
    model.buffers = module_.buffer_names();
    model.says_what_is_trained = model.module.has_value();
    if (!model.module) model.warnings = module_.warnings(model, aliases_, found_names_);
    return model;
  }

 private:
  std::string refusal() const {
    std::string all = "cannot be imported:" + joined(problems_);
    if (!module_.description())
      all += "\n  a PyTorch module: export it with models/rookery_export.py, which keeps what training needs";
    return all;
  }

  // What BatchNorm has counted so far.
  StateDict counters() {
    StateDict counters;
    for (const onnx::TensorProto& tensor : in_.initializer()) {
      if (module_.is_counter(tensor.name())) counters.emplace(tensor.name(), read_tensor(tensor, external_));
    }
    return counters;
  }

  // What the module's state dict has and its forward does not read, or not as something that is trained.
  void add_extras(OnnxModel& model) {
    const std::set<std::string> of_state = module_.state_names();
    for (const onnx::TensorProto& tensor : in_.initializer()) {
      if (!of_state.contains(tensor.name()) || model.graph.find(tensor.name())) continue;
      model.extras.emplace(tensor.name(), with_context("initializer " + in_quotes(tensor.name()),
                                                       [&] { return read_tensor(tensor, external_); }));
    }
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
      in_quotes(node.name());
      for (const std::string& output : node.output()) in_quotes(output);
    }
    for (const onnx::TensorProto& tensor : in_.initializer()) in_quotes(tensor.name());
    for (const onnx::ValueInfoProto& input : in_.input()) in_quotes(input.name());
  }

  void add_input(const onnx::ValueInfoProto& input) {
    const std::string& name = input.name();
    const bool has_data =
        std::ranges::any_of(in_.initializer(), [&](const auto& each) { return each.name() == name; });
    if (has_data || !needed_->contains(name)) return;
    TensorType type = type_of_input(input);
    if (absent_.contains(name)) {
      add_weight({.name = name, .type = type, .data = nullptr, .initializer = {}});
      return;
    }
    for (int axis = 1; axis < type.shape.rank(); ++axis) {
      if (type.shape[axis] == kBatch) {
        throw DataError(
            fmt::format("dimension {} is open ({}); only the first may be: leave it out of dynamic_axes",
                        axis, in_quotes(input.type().tensor_type().shape().dim(axis).dim_param())));
      }
    }
    if (graph_.fixed_batch() && type.shape.rank() > 0) type.shape[0] = kBatch;
    define(name, graph_.add_input(name, type));
  }

  void add_initializer(const onnx::TensorProto& proto) {
    if (!needed_->contains(proto.name())) return;
    Tensor tensor = read_tensor(proto, external_);
    const bool is_constant = module_.description() ? !module_.describes(proto.name())
                                                   : is_free_constant(proto.name(), tensor.type()) ||
                                                         module_.is_transient(proto.name());
    if (tensor.type().dtype != DType::kF32 || is_constant) {
      define(proto.name(), Known(std::move(tensor)));
      return;
    }
    const TensorType type = tensor.type();
    add_weight({.name = proto.name(),
                .type = type,
                .data = std::make_shared<const Tensor>(std::move(tensor)),
                .initializer = {},
                .trained = module_.is_trained(proto.name())});
  }

  // Numbers that the exporter made up a name for, and scale and bias of an InstanceNormalization, which are a
  // module's only under its own names. The older exporter makes initializers only of what it has computed
  // from parameters and buffers.
  bool is_free_constant(const std::string& name, const TensorType& type) const {
    if (!is_made_up(name)) return false;
    if (type.shape.elements() == 1) return !is_of_older_exporter(name);
    const auto& readers = needed_->readers(name);
    return !readers.empty() && std::ranges::all_of(readers, [](const onnx::NodeProto* node) {
      return node->op_type() == "InstanceNormalization";
    });
  }

  void add_weight(Weight weight) {
    weights_.emplace(weight.name, weight.type);
    if (!weight.data) {
      std::set<std::string> readers;
      for (const onnx::NodeProto* node : needed_->readers(weight.name)) {
        // Slopes of channels are given further dimensions.
        const auto& further = needed_->readers(node->output(0));
        if (node->op_type() == "Unsqueeze" && further.size() == 1) node = further.front();
        if (node->op_type() == "PRelu" || node->input(0) == weight.name) readers.insert(node->op_type());
      }
      // Weights come after their biases, too: all types are known from the inputs.
      std::map<std::string, TensorType> all;
      for (const onnx::ValueInfoProto& input : in_.input()) {
        if (absent_.contains(input.name())) all.emplace(input.name(), type_of_input(input));
      }
      weight.initializer = usual_initializer(weight.name, weight.type.shape, readers, all);
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
                               return needed_->contains(name);
                             });
      if (is_needed)
        attempt(node_name(node), {node.output().begin(), node.output().end()}, [&] { add_node(node); });
    }
  }

  void add_node(const onnx::NodeProto& node) {
    if (node.output_size() == 0) throw DataError("has no output");
    const bool is_own = node.domain() == kOnnxDomain;
    if (!node.domain().empty() && node.domain() != "ai.onnx" && !is_own)
      throw DataError(fmt::format("operators of the domain {} are not supported", in_quotes(node.domain())));
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
      add_branch(node, inputs.empty() ? Operand() : inputs[0]);
      return;
    }
    if (add_alias(node, inputs)) return;
    std::vector<Operand> made = make(node, std::move(inputs));
    for (int i = 0; i < node.output_size(); ++i) {
      if (node.output(i).empty()) continue;
      if (std::cmp_less(i, made.size())) {
        define(node.output(i), std::move(made[i]));
      } else if (needed_->contains(node.output(i))) {
        throw DataError(fmt::format("its output {} is not supported", in_quotes(node.output(i))));
      }
    }
  }

  std::vector<Operand> make(const onnx::NodeProto& node, std::vector<Operand> inputs) {
    const std::string name =
        node.name().empty() ? fmt::format("{}_{}", node.op_type(), in_quotes(node.output(0))) : node.name();
    ImportedNode imported{.name = name,
                          .type = node.op_type(),
                          .inputs = std::move(inputs),
                          .attributes = {},
                          .outputs = {node.output().begin(), node.output().end()}};
    for (std::string& output : imported.outputs) {
      if (depth_ == 0 && !needed_->contains(output)) output.clear();
    }
    if (node.op_type() == "Constant" && node.domain() != kOnnxDomain) return {constant_of(node)};
    if (node.op_type() == "ConstantOfShape") return {import_filled(imported, value_of(node))};
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      with_context("attribute " + in_quotes(attribute.name()), [&] {
        if (!imported.attributes.emplace(attribute.name(), attribute_from(attribute)).second)
          throw DataError("is there twice");
      });
    }
    if (!module_.description()) take_operation(node, imported);
    const bool is_own =
        node.domain() == kOnnxDomain || imported.type == "Detach" || imported.type == "Embedding";
    return is_own ? import_own(graph_, std::move(imported)) : import_node(graph_, std::move(imported));
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

  // The exporter names one of several parameters that begin equal, and gives the others by Identity.
  bool add_alias(const onnx::NodeProto& node, const std::vector<Operand>& inputs) {
    const auto* weight = inputs.empty() ? nullptr : std::get_if<std::shared_ptr<const Weight>>(inputs.data());
    if (node.op_type() != "Identity" || weight == nullptr || node.output_size() != 1) return false;
    if (!module_.may_have(node.output(0))) return false;
    Weight copy = **weight;
    copy.name = node.output(0);
    copy.trained = module_.is_trained(copy.name);
    if (!module_.description()) aliases_.push_back(copy.name);
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
    if (module_.description()) return;
    for (std::size_t i = 0; i < inputs.size() && node.op_type() != "Identity"; ++i) {
      const auto* weight = std::get_if<std::shared_ptr<const Weight>>(&inputs[i]);
      if (weight == nullptr || !is_made_up((*weight)->name)) continue;
      Weight parameter = turned(**weight, parameter_of_linear(node, i, **weight, *needed_, weights_));
      check_is_no_copy(**weight, values_);
      weights_.emplace(parameter.name, parameter.type);
      found_names_.push_back(parameter.name);
      const std::string name = parameter.name + ".turned";
      inputs[i] = graph_.emit(name, "Transpose", {std::make_shared<const Weight>(std::move(parameter))},
                              {{"perm", std::vector<std::int64_t>{1, 0}}});
    }
  }

  const onnx::GraphProto& in_;  // outlives the importer: both live in import_onnx()
  ExportedModule module_;
  ExternalData external_;
  std::set<std::string> absent_;  // inputs that are parameters
  GraphImporter graph_;
  std::map<std::string, Operand> values_;
  std::map<std::string, TensorType> weights_;
  std::optional<NeededNames> needed_;  // from read() on, which notes what is wrong with the file
  std::set<std::string> missing_;      // could not be made
  std::vector<std::string> problems_;
  std::vector<std::string> aliases_;      // weights by Identity of others
  std::vector<std::string> found_names_;  // of weights that had lost theirs
  int depth_ = 0;
};

bool is_ours(const onnx::ModelProto& model) {
  return std::ranges::any_of(model.metadata_props(),
                             [](const auto& property) { return property.key() == kOnnxVersionKey; });
}

void check_opset(const onnx::ModelProto& model) {
  std::int64_t version = 0;
  for (const auto& opset : model.opset_import()) {
    if (opset.domain().empty() || opset.domain() == "ai.onnx") version = opset.version();
  }
  if (version < kOldestOpset || version > kNewestOpset) {
    throw DataError(
        fmt::format("has the operator set {}, supported are {} to {}: export with opset_version=17", version,
                    kOldestOpset, kNewestOpset));
  }
}

}  // namespace

OnnxModel import_onnx(const std::filesystem::path& path) {
  const std::string bytes = read_file(path, kMaxFileBytes);
  return with_context(path.string(), [&] {
    onnx::ModelProto model = parse_onnx(bytes);
    if (is_ours(model)) return read_onnx(path);
    if (model.training_info_size() > 0) throw DataError("training graphs are not supported");
    check_opset(model);
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
      return Importer(model.graph(), path.parent_path(), std::move(module)).read();
    } catch (const ConfigError& error) {  // what Graph finds wrong
      throw DataError(error.what());
    }
  });
}

}  // namespace rookery
