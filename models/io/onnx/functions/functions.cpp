#include "models/io/onnx/functions/functions.hpp"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "models/base/check.hpp"
#include "models/graph/ops/attention.hpp"
#include "models/graph/ops/recurrent.hpp"
#include "models/io/onnx/functions/function_body.hpp"
#include "models/io/onnx/functions/recurrent_functions.hpp"

namespace rookery {
namespace {

void detach_body(FunctionBody& body) {
  body.output(body.input("x"));
}

void embedding_body(FunctionBody& body) {
  const auto weight = body.input("weight");
  body.output(body.node("Gather", {weight, body.input("indices")}));
}

void gelu_body(FunctionBody& body) {
  const auto x = body.input("x");
  const auto z = body.node("Mul", {x, body.number(1 / std::numbers::sqrt2)});
  const auto twice = body.node("Add", {body.node("Erf", {z}), body.number(1)});
  body.output(body.node("Mul", {x, body.node("Mul", {twice, body.number(0.5)})}));
}

void gelu_tanh_body(FunctionBody& body) {
  const auto x = body.input("x");
  const auto cube = body.node("Mul", {body.node("Mul", {x, x}), x});
  const auto sum = body.node("Add", {x, body.node("Mul", {cube, body.number(0.044715)})});
  const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const auto bend = body.node("Tanh", {body.node("Mul", {sum, body.number(scale)})});
  const auto twice = body.node("Add", {bend, body.number(1)});
  body.output(body.node("Mul", {x, body.node("Mul", {twice, body.number(0.5)})}));
}

void group_norm_body(FunctionBody& body) {
  const auto x = body.input("x");
  const auto scale = body.input("scale");
  const auto bias = body.input("bias");
  const auto keep = body.integers({0});
  const auto rest = body.integers({-1});
  const auto rows = body.node("Reshape", {x, body.shape({keep, body.given_size("num_groups"), rest})});
  const std::map<std::string, Attribute> last{{"axes", std::vector<std::int64_t>{-1}}};
  const auto centred = body.node("Sub", {rows, body.node("ReduceMean", {rows}, last)});
  const auto variance = body.node("ReduceMean", {body.node("Mul", {centred, centred})}, last);
  const auto raised = body.node("Add", {variance, body.given("epsilon", AttributeKind::kFloat)});
  const auto normal = body.node("Div", {centred, body.node("Sqrt", {raised})});
  const auto planes = body.node("Reshape", {normal, body.shape({keep, body.node("Shape", {scale}), rest})});
  const auto column = body.integers({1});
  const auto scaled = body.node("Mul", {planes, body.node("Unsqueeze", {scale, column})});
  const auto moved = body.node("Add", {scaled, body.node("Unsqueeze", {bias, column})});
  body.output(body.node("Reshape", {moved, body.node("Shape", {x})}));
}

enum class Heads : std::uint8_t { kPacked, kMerged, kApart };
enum class Mask : std::uint8_t { kNone, kAdded, kBool };

struct AttentionForm {
  Heads heads;
  Mask mask;
  bool is_causal;

  std::string name() const {
    const char* const heads_name = heads == Heads::kPacked ? "Packed" : heads == Heads::kApart ? "Heads" : "";
    const char* const mask_name = mask == Mask::kAdded ? "Biased" : mask == Mask::kBool ? "Masked" : "";
    return std::string("Attention") + heads_name + mask_name + (is_causal ? "Causal" : "");
  }
  static std::vector<AttentionForm> all() {
    std::vector<AttentionForm> forms;
    for (const Heads heads : {Heads::kPacked, Heads::kMerged, Heads::kApart}) {
      for (const Mask mask : {Mask::kNone, Mask::kAdded, Mask::kBool}) {
        for (const bool causal : {false, true}) forms.push_back({heads, mask, causal});
      }
    }
    return forms;
  }
};

// Scores that are not seen are -infinity, and rows that see nothing zero.
void attention_body(FunctionBody& body, const AttentionForm& form) {
  const bool merged = form.heads != Heads::kApart;
  std::vector<FunctionBody::Name> qkv;
  if (form.heads == Heads::kPacked) {
    qkv = body.split(body.input("qkv"), 3, -1);
  } else {
    for (const char* name : {"q", "k", "v"}) qkv.push_back(body.input(name));
  }
  const auto mask = form.mask == Mask::kNone ? FunctionBody::Name() : body.input("mask");
  if (merged) {
    const auto keep = body.integers({0, 0});
    const auto heads = body.shape({keep, body.given_size("num_heads"), body.integers({-1})});
    for (FunctionBody::Name& x : qkv) x = body.transpose(body.node("Reshape", {x, heads}), {0, 2, 1, 3});
  }
  const auto product = body.node("MatMul", {qkv[0], body.transpose(qkv[1], {0, 1, 3, 2})});
  auto scores = body.node("Mul", {product, body.given("scale", AttributeKind::kFloat)});
  const auto nothing = body.number(-std::numeric_limits<double>::infinity());
  if (form.mask == Mask::kAdded) scores = body.node("Add", {scores, mask});
  if (form.mask == Mask::kBool) scores = body.node("Where", {mask, scores, nothing});
  if (form.is_causal) {
    const auto size =
        body.node("Slice", {body.node("Shape", {scores}), body.integers({2}), body.integers({4})});
    const auto zeros = body.node("ConstantOfShape", {size});
    const auto ones = body.node("Add", {zeros, body.number(1)});
    const auto seen = body.boolean(body.node("Trilu", {ones}, {{"upper", std::int64_t{0}}}));
    scores = body.node("Where", {seen, scores, nothing});
  }
  const std::map<std::string, Attribute> last{{"axis", std::int64_t{-1}}};
  auto weights = body.node("Softmax", {scores}, last);
  if (form.mask != Mask::kNone) {
    const auto peak = body.node("ReduceMax", {scores}, {{"axes", std::vector<std::int64_t>{-1}}});
    weights = body.node("Where", {body.node("Equal", {peak, nothing}), body.number(0), weights});
  }
  auto y = body.node("MatMul", {weights, qkv[2]});
  if (merged) y = body.node("Reshape", {body.transpose(y, {0, 2, 1, 3}), body.integers({0, 0, -1})});
  body.output(y);
}

OnnxFunction attention_function(const AttentionForm& form) {
  OnnxFunction function{
      .name = form.name(), .type = "Attention", .implied = {}, .inputs = 3, .given = {kAttentionQ}};
  if (form.is_causal) function.implied["is_causal"] = std::int64_t{1};
  if (form.heads != Heads::kPacked) function.given = {kAttentionQ, kAttentionK, kAttentionV};
  if (form.mask != Mask::kNone) {
    function.inputs = 4;
    function.given.push_back(kAttentionMask);
  }
  function.attributes = {{"scale", AttributeKind::kFloat}, {"ratio", AttributeKind::kFloat}};
  if (form.heads != Heads::kApart) function.attributes["num_heads"] = AttributeKind::kInt;
  return function;
}

struct Definition {
  OnnxFunction function;
  std::function<void(FunctionBody&)> write;
};

const std::vector<Definition>& definitions() {
  static const std::vector<Definition> all = [] {
    std::vector<Definition> table{
        {{.name = "Detach", .type = "Detach", .implied = {}, .inputs = 1, .given = {0}, .attributes = {}},
         detach_body},
        {{.name = "Embedding",
          .type = "Gather",
          .implied = {},
          .inputs = 2,
          .given = {0, 1},
          .attributes = {{"padding_idx", AttributeKind::kInt}}},
         embedding_body},
        {{.name = "Gelu",
          .type = "Gelu",
          .implied = {{"approximate", std::string("none")}},
          .inputs = 1,
          .given = {0},
          .attributes = {}},
         gelu_body},
        {{.name = "GeluTanh",
          .type = "Gelu",
          .implied = {{"approximate", std::string("tanh")}},
          .inputs = 1,
          .given = {0},
          .attributes = {}},
         gelu_tanh_body},
        {{.name = "GroupNormalization",
          .type = "GroupNormalization",
          .implied = {},
          .inputs = 3,
          .given = {0, 1, 2},
          .attributes = {{"num_groups", AttributeKind::kInt}, {"epsilon", AttributeKind::kFloat}}},
         group_norm_body},
    };
    for (const RecurrentForm& form : RecurrentForm::all()) {
      table.push_back({form.function(), [form](FunctionBody& body) { form.write(body); }});
    }
    for (const AttentionForm& form : AttentionForm::all()) {
      table.push_back({attention_function(form), [form](FunctionBody& body) { attention_body(body, form); }});
    }
    return table;
  }();
  return all;
}

const Definition* find_definition(const std::string& name) {
  const auto found = std::ranges::find(definitions(), name,
                                       [](const Definition& definition) { return definition.function.name; });
  return found == definitions().end() ? nullptr : &*found;
}

AttentionForm attention_form(const Op& op, std::span<const TensorType> inputs) {
  AttentionForm form{
      .heads = Heads::kMerged, .mask = Mask::kNone, .is_causal = op.integer("is_causal", 0) != 0};
  if (op.inputs[kAttentionK] == kNoValue) form.heads = Heads::kPacked;
  if (inputs[kAttentionQ].shape.rank() == 4) form.heads = Heads::kApart;
  if (op.inputs.size() > kAttentionMask && op.inputs[kAttentionMask] != kNoValue) {
    form.mask = inputs[kAttentionMask].dtype == DType::kBool ? Mask::kBool : Mask::kAdded;
  }
  return form;
}

// What an attribute is where the op does not say.
Attribute default_of(const std::string& key, const Op& op, std::span<const TensorType> inputs) {
  if (key == "epsilon") return 1e-5F;
  if (key == "ratio") return 0.0F;
  if (key == "direction") return std::string("forward");
  if (key == "linear_before_reset") return std::int64_t{0};
  if (key == "hidden_size") return inputs[kRecurrentR].shape[1];
  ROOKERY_CHECK(key == "scale", "op '{}' has no {}", op.name, key);
  const AttentionSizes sizes =
      attention_sizes(op, inputs[kAttentionQ].shape, inputs[kAttentionK].shape, inputs[kAttentionV].shape);
  return 1 / std::sqrt(static_cast<float>(sizes.depth));
}

}  // namespace

const OnnxFunction* find_onnx_function(const std::string& name) {
  const Definition* definition = find_definition(name);
  return definition == nullptr ? nullptr : &definition->function;
}

bool has_onnx_function(const std::string& type) {
  return std::ranges::any_of(definitions(),
                             [&](const Definition& definition) { return definition.function.type == type; });
}

const OnnxFunction* onnx_function_of(const Op& op, std::span<const TensorType> inputs) {
  if (op.type == "Gelu")
    return find_onnx_function(op.text("approximate", "none") == "tanh" ? "GeluTanh" : "Gelu");
  if (gate_orders(op) != nullptr) return find_onnx_function(RecurrentForm::of(op).name());
  if (op.type == "Attention") return find_onnx_function(attention_form(op, inputs).name());
  if (op.type == "Gather" && op.attributes.contains("padding_idx")) return find_onnx_function("Embedding");
  return find_onnx_function(op.type);
}

std::map<std::string, Attribute> call_attributes(const OnnxFunction& function, const Op& op,
                                                 std::span<const TensorType> inputs) {
  std::map<std::string, Attribute> attributes;
  for (const auto& [key, kind] : function.attributes) {
    const auto found = op.attributes.find(key);
    attributes[key] = found != op.attributes.end() ? found->second : default_of(key, op, inputs);
  }
  return attributes;
}

onnx::FunctionProto function_body(const OnnxFunction& function) {
  const Definition* definition = find_definition(function.name);
  onnx::FunctionProto out;
  out.set_name(function.name);
  out.set_domain(kOnnxDomain);
  onnx::OperatorSetIdProto& opset = *out.add_opset_import();
  opset.set_domain("");
  opset.set_version(kOnnxOpset);
  FunctionBody body(out);
  for (const auto& [key, kind] : function.attributes) body.attribute(key);
  definition->write(body);
  return out;
}

}  // namespace rookery
