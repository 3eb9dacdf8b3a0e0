#include "trainer/progress/tensorboard/graph_def.hpp"

#include <tensorboard_events.pb.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <vector>

#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

// TensorFlow has letters, digits and "_-/" in names, and none of them begins with a slash or an underscore.
std::string grouped(std::string name) {
  std::ranges::replace(name, '.', '/');
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '/' && c != '-'; }, '_');
  const std::size_t begin = name.find_first_not_of("/_-");
  return begin == std::string::npos ? "_" : name.substr(begin);
}

const char* source_type(ValueKind kind) {
  switch (kind) {
    case ValueKind::kInput:
      return "Input";
    case ValueKind::kParameter:
      return "Parameter";
    case ValueKind::kBuffer:
      return "Buffer";
    case ValueKind::kConstant:
      return "Constant";
    case ValueKind::kActivation:
      break;
  }
  return "Activation";
}

// Called with the attribute that TensorBoard shows.
void set_attribute(tensorboard::Attribute& into, const Attribute& attribute) {
  struct Setter {
    tensorboard::Attribute& into;
    void operator()(std::int64_t number) const { into.set_i(number); }
    void operator()(float number) const { into.set_f(number); }
    void operator()(const std::string& text) const { into.set_s(text); }
    void operator()(const std::vector<std::int64_t>& numbers) const {
      into.mutable_list()->mutable_i()->Add(numbers.begin(), numbers.end());
    }
    void operator()(const std::vector<float>& numbers) const {
      into.mutable_list()->mutable_f()->Add(numbers.begin(), numbers.end());
    }
  };
  std::visit(Setter{into}, attribute);
}

class GraphWriter {
 public:
  explicit GraphWriter(const Graph& graph) : graph_(graph), types_(batch_types(graph)) {}

  std::string write(const std::function<std::string(const Op&)>& device_of) {
    names_.resize(graph_.values().size());
    for (const ValueId input : graph_.inputs()) add_source(input, "");
    for (const Op& op : graph_.ops()) {
      const std::string device = device_of(op);
      for (const ValueId input : op.inputs)
        if (input != kNoValue && names_[input].empty()) add_source(input, device);
      add_op(op, device);
    }
    def_.mutable_versions()->set_producer(22);
    return def_.SerializeAsString();
  }

 private:
  static constexpr const char* kShapes = "_output_shapes";

  tensorboard::Node& add_node(const std::string& name, const std::string& type, const std::string& device) {
    std::string unused = grouped(name);
    for (int i = 1; !taken_.insert(unused).second; ++i) unused = fmt::format("{}_{}", grouped(name), i);
    tensorboard::Node& node = *def_.add_node();
    node.set_name(unused);
    node.set_op(type);
    node.set_device(device);
    return node;
  }

  void add_source(ValueId id, const std::string& device) {
    const Value& value = graph_.value(id);
    tensorboard::Node& node = add_node(value.name, source_type(value.kind), device);
    add_shape(attribute(node, kShapes), id);
    names_[id] = node.name();
  }

  void add_op(const Op& op, const std::string& device) {
    tensorboard::Node& node = add_node(op.name, op.type, device);
    for (const ValueId input : op.inputs)
      if (input != kNoValue) node.add_input(names_[input]);
    for (const auto& [key, value] : op.attributes) set_attribute(attribute(node, key), value);
    tensorboard::Attribute& shapes = attribute(node, kShapes);
    int port = 0;
    for (const ValueId output : op.outputs) {
      if (output == kNoValue) continue;
      add_shape(shapes, output);
      names_[output] = port == 0 ? node.name() : fmt::format("{}:{}", node.name(), port);
      ++port;
    }
  }

  // A new one.
  static tensorboard::Attribute& attribute(tensorboard::Node& node, const std::string& key) {
    tensorboard::NamedAttribute& made = *node.add_attr();
    made.set_key(key);
    return *made.mutable_value();
  }

  void add_shape(tensorboard::Attribute& shapes, ValueId id) {
    auto& shape = *shapes.mutable_list()->add_shape();
    for (const std::int64_t size : types_[id].shape.dims())
      shape.add_dim()->set_size(size == kBatch ? -1 : size);
  }

  const Graph& graph_;
  const std::vector<TensorType> types_;  // by value
  std::vector<std::string> names_;       // by value, as inputs of nodes
  std::set<std::string> taken_;          // names of nodes
  tensorboard::GraphDef def_;
};

}  // namespace

std::string graph_def(const Graph& graph, const std::function<std::string(const Op&)>& device_of) {
  return GraphWriter(graph).write(device_of);
}

}  // namespace rookery
