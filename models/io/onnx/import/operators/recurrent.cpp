// ONNX's LSTM, GRU and RNN as ops of one direction each. Their weights stay made of what the file makes them
// of: recognize_recurrent() finds the parameters.

#include <algorithm>
#include <array>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/io/onnx/import/operators/families.hpp"

namespace rookery {
namespace {

using Integers = std::vector<std::int64_t>;

enum OnnxInput : std::size_t { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kPeepholes };

class Layers {
 public:
  Layers(GraphImporter& graph, ImportedNode& node) : graph_(graph), node_(node) {
    node_.inputs.resize(std::max<std::size_t>(node_.inputs.size(), kPeepholes + 1));
    check_ranks();
    directions_ = take_directions();
    take_attributes();
    check_lengths();
    if (is_there(kPeepholes)) throw DataError("has peepholes, which are not supported");
  }

  Operands make() {
    const bool is_lstm = node_.type == "LSTM";
    const Operands w = parts(kW);
    const Operands r = parts(kR);
    const Operands b = parts(kB);
    const Operands h = initial(kInitialH);
    const Operands c = is_lstm ? initial(kInitialC) : Operands();
    attributes_["hidden_size"] = graph_.type(r[0], 0).shape[-1];
    std::vector<Operands> made(is_lstm ? 3 : 2);
    for (std::size_t i = 0; i < directions_.size(); ++i) {
      Operands inputs{node_.inputs[kX], w[i], r[i]};
      const Operands biases = b.empty() ? Operands(2) : halves(b[i]);
      inputs.insert(inputs.end(), biases.begin(), biases.end());
      inputs.push_back(h.empty() ? Operand() : h[i]);
      if (is_lstm) inputs.push_back(c.empty() ? Operand() : c[i]);
      while (std::holds_alternative<std::monostate>(inputs.back())) inputs.pop_back();
      AtProbes<Attributes> attributes;
      attributes_["direction"] = directions_[i];
      attributes.fill(attributes_);
      const Operands results =
          graph_.emit(node_.name, node_.type, inputs, attributes, std::vector<std::string>(made.size()));
      for (std::size_t k = 0; k < made.size(); ++k) made[k].push_back(results[k]);
      if (!node_.outputs[0].empty()) made[0].back() = turned("samples", made[0].back());
    }
    // Here a stage may begin, for the samples come first.
    for (Operand& y : made[0]) {
      if (!node_.outputs[0].empty()) y = turned("steps", y);
    }
    Operands joined;
    for (std::size_t k = 0; k < std::min(made.size(), node_.outputs.size()); ++k)
      joined.push_back(join(made[k], k == 0 ? 1 : 0, node_.outputs[k]));
    return joined;
  }

 private:
  bool is_there(std::size_t position) const {
    return !std::holds_alternative<std::monostate>(node_.inputs[position]);
  }

  void check_ranks() const {
    constexpr std::array<int, kPeepholes> kRanks{3, 3, 3, 2, 1, 3, 3};
    for (std::size_t i = 0; i < kRanks.size(); ++i) {
      if (i <= kR && !is_there(i)) throw DataError(fmt::format("lacks its input {}", i));
      const TensorType type = graph_.type(node_.inputs[i], 0);
      if (is_there(i) && type.shape.rank() != kRanks.at(i))
        throw DataError(fmt::format("its input {} is {}, not of rank {}", i, type.to_string(), kRanks.at(i)));
    }
  }

  std::string take_text(const std::string& key, const std::string& otherwise) {
    const auto found = node_.attributes.find(key);
    if (found == node_.attributes.end()) return otherwise;
    const auto* text = std::get_if<std::string>(&found->second);
    if (text == nullptr) throw DataError(fmt::format("attribute \"{}\" has the wrong type", key));
    std::string taken = *text;
    node_.attributes.erase(found);
    return taken;
  }

  std::vector<std::string> take_directions() {
    const std::string direction = take_text("direction", "forward");
    if (direction == "bidirectional") return {"forward", "reverse"};
    if (direction != "forward" && direction != "reverse")
      throw DataError(fmt::format("has no direction '{}'", direction));
    return {direction};
  }

  // What must have one value alone, and what ops have.
  void take_attributes() {
    std::string activations = take_text("activations", "");
    std::string usual = node_.type == "LSTM" ? "Sigmoid,Tanh,Tanh" : "Sigmoid,Tanh";
    if (node_.type == "RNN") {
      usual = activations.starts_with("Relu") ? "Relu" : "Tanh";
      attributes_["function"] = usual;
    }
    const std::string of_one = usual;
    if (directions_.size() > 1) usual += "," + of_one;
    if (!activations.empty() && activations != usual)
      throw DataError(fmt::format("its functions are {}, not {}", activations, usual));
    for (const auto& [key, value] : node_.attributes) {
      if (key == "hidden_size") continue;
      if (key == "linear_before_reset" && node_.type == "GRU") {
        attributes_[key] = value;
      } else if (value != Attribute(std::int64_t{0}) || (key != "input_forget" && key != "layout")) {
        throw DataError(fmt::format("attribute \"{}\" is not supported", key));
      }
    }
  }

  // Sequences of different lengths are not computed.
  void check_lengths() const {
    if (!is_there(kLengths)) return;
    const auto* known = std::get_if<Known>(&node_.inputs[kLengths]);
    for (std::size_t probe = 0; known != nullptr && probe < kProbes; ++probe) {
      const std::int64_t steps = graph_.type(node_.inputs[kX], probe).shape[0];
      const Tensor& lengths = known->at(probe);
      if (lengths.type().dtype != DType::kI32 ||
          std::ranges::any_of(lengths.as<std::int32_t>(),
                              [&](std::int32_t length) { return length != steps; }))
        known = nullptr;
    }
    if (known == nullptr)
      throw DataError("has sequences of different lengths (pack_padded_sequence), which are not supported");
  }

  // An input by direction, without its first dimension; none where the input is absent.
  Operands parts(std::size_t position) {
    if (!is_there(position)) return {};
    const auto count = directions_.size();
    if (graph_.type(node_.inputs[position], 0).shape[0] != std::ssize(directions_))
      throw DataError(fmt::format("its input {} is {}, not of {} directions", position,
                                  graph_.type(node_.inputs[position], 0).to_string(), count));
    Operands all{node_.inputs[position]};
    if (count > 1) all = split(all[0], 0, count);
    for (Operand& part : all)
      part = graph_.emit(node_.name + ".part", "Squeeze", {part}, {{"axes", Integers{0}}});
    return all;
  }

  Operands halves(const Operand& biases) { return split(biases, 0, 2); }

  Operands split(const Operand& x, std::int64_t axis, std::size_t count) {
    const std::int64_t size = graph_.type(x, 0).shape[static_cast<int>(axis)];
    AtProbes<Attributes> attributes;
    attributes.fill({{"axis", axis}, {"split", Integers(count, size / static_cast<std::int64_t>(count))}});
    return graph_.emit(node_.name + ".parts", "Split", {x}, attributes, std::vector<std::string>(count));
  }

  // Zeros are as if nothing were given.
  Operands initial(std::size_t position) {
    const auto* known = std::get_if<Known>(&node_.inputs[position]);
    bool is_zero = known != nullptr;
    for (std::size_t probe = 0; is_zero && probe < kProbes; ++probe) {
      const Tensor& state = known->at(probe);
      is_zero = state.type().dtype == DType::kF32 &&
                std::ranges::all_of(state.as<float>(), [](float each) { return each == 0; });
    }
    return is_zero ? Operands() : parts(position);
  }

  // Steps and samples in the other order.
  Operand turned(const char* first, const Operand& y) {
    return graph_.emit(fmt::format("{}.{}_first", node_.name, first), "Transpose", {y},
                       {{"perm", Integers{1, 0, 2}}});
  }

  // The results of all directions along a new axis.
  Operand join(const Operands& of_directions, std::int64_t axis, const std::string& output) {
    if (output.empty()) return {};
    const bool is_one = of_directions.size() == 1;
    Operands all;
    for (const Operand& one : of_directions) {
      all.push_back(graph_.emit(node_.name + ".direction", "Unsqueeze", {one}, {{"axes", Integers{axis}}},
                                is_one ? output : std::string()));
    }
    return is_one ? all[0] : graph_.emit(node_.name + ".joined", "Concat", all, {{"axis", axis}}, output);
  }

  GraphImporter& graph_;  // outlives this, as the node does: all live in import_recurrent()
  ImportedNode& node_;
  std::vector<std::string> directions_;
  Attributes attributes_;
};

Operands import_recurrent(GraphImporter& graph, ImportedNode& node) {
  return Layers(graph, node).make();
}

}  // namespace

ImportTable recurrent_imports() {
  return {{"GRU", import_recurrent}, {"LSTM", import_recurrent}, {"RNN", import_recurrent}};
}

}  // namespace rookery
