// Ops of every family with random data over the shapes that matter: those of real models, and odd ones.
#pragma once

#include <cstdint>
#include <vector>

#include "models/graph/op_definition.hpp"
#include "models/graph/ops/batch_norm.hpp"
#include "models/graph/ops/window.hpp"
#include "tests/models/kernels/op_case.hpp"

namespace rookery::kernel_tests {

struct ConvSpec {
  std::int64_t batch, in, height, width, out;
  std::vector<std::int64_t> kernel{3, 3}, strides{1, 1}, dilations{1, 1}, pads{1, 1, 1, 1};
  std::int64_t groups = 1;
  std::string auto_pad = "NOTSET";
  bool bias = true;
};

inline std::vector<ConvSpec> conv_specs() {
  return {
      {64, 1, 8, 8, 16},
      {54, 1, 8, 8, 16},
      {1, 1, 8, 8, 16},
      {64, 16, 2, 2, 32},
      {54, 16, 2, 2, 32},
      {2, 16, 2, 2, 32},
      {1, 16, 2, 2, 32},
      {3, 3, 9, 7, 5},
      {2, 5, 4, 4, 7},
      {2, 8, 3, 5, 3, {3, 3}, {2, 2}},
      {2, 4, 8, 8, 6, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
      {2, 6, 7, 9, 4, {3, 2}, {1, 2}, {2, 1}, {2, 0, 1, 1}, 2},
      {2, 4, 6, 6, 4, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 4},
      {2, 2, 7, 8, 3, {4, 4}, {2, 2}, {1, 1}, {0, 0, 0, 0}, 1, "SAME_UPPER"},
      {2, 2, 7, 8, 3, {4, 4}, {2, 3}, {1, 1}, {0, 0, 0, 0}, 1, "SAME_LOWER"},
      {2, 2, 7, 8, 3, {5, 3}, {1, 1}, {1, 1}, {9, 9, 9, 9}, 1, "VALID"},
      {2, 3, 8, 8, 4, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1, "NOTSET", false},
      {2, 32, 14, 14, 32},
      {2, 3, 16, 16, 64, {7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}},
  };
}

// The forward op, with the types that the gradient ops need.
inline OpCase conv_case(const ConvSpec& spec, Random& random) {
  std::map<std::string, Attribute> attributes{{"kernel_shape", spec.kernel},
                                              {"strides", spec.strides},
                                              {"dilations", spec.dilations},
                                              {"group", spec.groups},
                                              {"auto_pad", spec.auto_pad}};
  if (spec.auto_pad == "NOTSET") attributes["pads"] = spec.pads;
  const Shape x{spec.batch, spec.in, spec.height, spec.width};
  const Shape w{spec.out, spec.in / spec.groups, spec.kernel[0], spec.kernel[1]};
  std::vector<Tensor> inputs;
  inputs.push_back(random_tensor(x, random));
  inputs.push_back(random_tensor(w, random));
  if (spec.bias) inputs.push_back(random_tensor({spec.out}, random));
  OpCase test = make_case("Conv", attributes, std::move(inputs), {TensorType{}});
  const Window window = conv_window(test.op, x, w);
  test.outputs[0].shape = {spec.batch, spec.out, window.output[0], window.output[1]};
  return test;
}

// The gradient op `type` with forward's attributes.
inline OpCase gradient_case(const OpCase& forward, const std::string& type, std::vector<Tensor> inputs,
                            std::vector<TensorType> outputs) {
  auto attributes = forward.op.attributes;
  attributes["forward"] = forward.op.name;
  OpCase test = make_case(type, attributes, std::move(inputs), std::move(outputs));
  test.seed = forward.seed;
  test.context = forward.context;
  return test;
}

// {gradient op, per output the index of the forward input whose gradient it is}
struct GradientOf {
  OpCase test;
  std::vector<int> targets;
};

// Gradient ops of a product-like op (Conv, Gemm): "<type>GradInput" and "<type>GradWeight".
inline std::vector<GradientOf> product_gradients(const OpCase& forward, const Tensor& dy) {
  const auto types = forward.input_types();
  std::vector<GradientOf> gradients;
  std::vector<Tensor> inputs;
  inputs.push_back(dy.clone());
  inputs.push_back(forward.inputs[1].clone());
  gradients.push_back(
      {gradient_case(forward, forward.op.type + "GradInput", std::move(inputs), {types[0]}), {0}});
  inputs.clear();
  inputs.push_back(dy.clone());
  inputs.push_back(forward.inputs[0].clone());
  const bool bias = types.size() > 2;
  OpCase weight = gradient_case(forward, forward.op.type + "GradWeight", std::move(inputs),
                                {types[1], bias ? types[2] : TensorType{}});
  if (!bias) weight.op.outputs[1] = kNoValue;
  gradients.push_back({std::move(weight), bias ? std::vector<int>{1, 2} : std::vector<int>{1}});
  return gradients;
}

// The gradient ops of Conv, ConvTranspose and pools; `results` are those of the forward op.
inline std::vector<GradientOf> window_gradients(const OpCase& forward, const std::vector<Tensor>& results,
                                                const Tensor& dy) {
  if (forward.op.type.starts_with("Conv")) return product_gradients(forward, dy);
  std::vector<Tensor> inputs;
  inputs.push_back(dy.clone());
  if (forward.op.type == "MaxPool") inputs.push_back(results[1].clone());
  std::vector<GradientOf> gradients;
  gradients.push_back(
      {gradient_case(forward, forward.op.type + "Grad", std::move(inputs), {forward.inputs[0].type()}), {0}});
  return gradients;
}

struct GemmSpec {
  std::int64_t m, n, k;
  bool trans_a = false, trans_b = true, bias = true;
  float alpha = 1, beta = 1;
};

inline std::vector<GemmSpec> gemm_specs() {
  return {
      {64, 256, 32},
      {64, 10, 256},
      {54, 256, 32},
      {54, 10, 256},
      {1, 256, 32},
      {1, 10, 256},
      {2, 17, 5},
      {64, 256, 784},
      {3, 5, 7, true, false},
      {9, 33, 18, true, true, true, 0.5F, 2.0F},
      {13, 21, 40, false, false, false, -1.5F},
      {1, 1, 1},
      // Few rows, which are transposed.
      {21, 150, 90},
      {50, 147, 131, false, true, false},
      {130, 140, 300},
      // Cut into pieces of columns, and of rows; with rows of operands a power of two apart.
      {70, 512, 256},
      {512, 96, 256, true, false, false},
      // So many terms in sums of the weight's gradient that a library may share them among threads.
      {2048, 256, 64},
      // Sums in parts: of the op, of the gradient of its input and of that of its weight.
      {40, 50, 2100},
      {70, 50, 1300},
      {40, 1100, 100, false, false, false},
      {1100, 48, 100},
      // One row, and sums of one product.
      {1, 2100, 2001},
      {2100, 2001, 1},
  };
}

inline OpCase gemm_case(const GemmSpec& s, Random& random) {
  std::vector<Tensor> inputs;
  inputs.push_back(random_tensor(s.trans_a ? Shape{s.k, s.m} : Shape{s.m, s.k}, random));
  inputs.push_back(random_tensor(s.trans_b ? Shape{s.n, s.k} : Shape{s.k, s.n}, random));
  if (s.bias) inputs.push_back(random_tensor({s.n}, random));
  return make_case("Gemm",
                   {{"transA", std::int64_t{s.trans_a}},
                    {"transB", std::int64_t{s.trans_b}},
                    {"alpha", s.alpha},
                    {"beta", s.beta}},
                   std::move(inputs), {{DType::kF32, {s.m, s.n}}});
}

struct PoolSpec {
  Shape x;
  std::vector<std::int64_t> kernel{2, 2}, strides{2, 2}, pads{0, 0, 0, 0};
};

inline std::vector<PoolSpec> pool_specs() {
  return {
      {{64, 16, 8, 8}},
      {{54, 16, 4, 4}},
      {{64, 32, 2, 2}},
      {{1, 3, 7, 9}},
      {{2, 5, 6, 10}},
      {{2, 3, 32, 64}},
      {{1, 2, 4, 2}},
      {{1, 1, 2, 6}},
      {{2, 3, 9, 8}, {3, 3}, {2, 2}, {1, 1, 1, 1}},
      {{2, 2, 6, 7}, {3, 2}, {1, 1}, {2, 0, 1, 1}},
      {{2, 3, 5, 5}, {2, 2}, {1, 1}},
      {{1, 2, 6, 6}, {2, 2}, {2, 2}, {1, 1, 1, 1}},
  };
}

inline OpCase pool_case(const PoolSpec& s, Random& random) {
  std::vector<Tensor> inputs;
  inputs.push_back(random_tensor(s.x, random));
  // Equal neighbours, as after a ReLU: the first must win.
  for (float& value : inputs[0].as<float>()) value = value < -0.4F ? 0.25F : value;
  OpCase test = make_case("MaxPool", {{"kernel_shape", s.kernel}, {"strides", s.strides}, {"pads", s.pads}},
                          std::move(inputs), {TensorType{}, TensorType{DType::kU8, {}}});
  const Window window = pool_window(test.op, s.x);
  test.outputs[0].shape = {s.x[0], s.x[1], window.output[0], window.output[1]};
  test.outputs[1].shape = test.outputs[0].shape;
  return test;
}

inline std::vector<Shape> batch_norm_shapes() {
  return {{64, 16, 4, 4}, {54, 16, 4, 4}, {64, 32, 1, 1}, {64, 256},      {54, 256}, {2, 5},
          {3, 7, 3, 5},   {2, 3, 9, 11},  {1, 4, 4, 4},   {2, 3, 40, 40}, {64, 33},  {1, 20}};
}

inline OpCase batch_norm_case(const Shape& x, bool training, Random& random) {
  const Shape channels{x[1]};
  std::vector<Tensor> inputs;
  inputs.push_back(random_tensor(x, random, -1, 3));
  inputs.push_back(random_tensor(channels, random, 0.5F, 2));
  inputs.push_back(random_tensor(channels, random));
  inputs.push_back(random_tensor(channels, random));
  inputs.push_back(random_tensor(channels, random, 0.5F, 2));
  const TensorType image{DType::kF32, x};
  const TensorType per_channel{DType::kF32, channels};
  if (!training) return make_case("BatchNormalization", {{"epsilon", 1e-5F}}, std::move(inputs), {image});
  inputs.emplace_back(DType::kI64, Shape{});
  inputs[5].as<std::int64_t>()[0] = 41;
  OpCase test = make_case(
      "BatchNormalization", {{"epsilon", 1e-5F}, {"momentum", 0.9F}, {"training_mode", std::int64_t{1}}},
      std::move(inputs), {image, per_channel, per_channel, {DType::kI64, {}}, per_channel, per_channel});
  test.in_place = {{1, 3}, {2, 4}, {3, 5}};
  return test;
}

// A batch_norm_case that adds something to its result.
inline OpCase adding(OpCase norm, Random& random) {
  if (norm.inputs.size() < kBatchNormAdded) {
    norm.inputs.emplace_back(TensorType{});
    norm.op.inputs.push_back(kNoValue);
  }
  norm.inputs.push_back(random_tensor(norm.inputs[0].shape(), random));
  norm.op.inputs.push_back(static_cast<ValueId>(norm.op.inputs.size() + norm.outputs.size()));
  return norm;
}

inline OpCase batch_norm_gradient(const OpCase& forward, const std::vector<Tensor>& results,
                                  const Tensor& dy) {
  std::vector<Tensor> inputs;
  inputs.push_back(dy.clone());
  inputs.push_back(forward.inputs[0].clone());
  inputs.push_back(forward.inputs[1].clone());
  inputs.push_back(results[4].clone());
  inputs.push_back(results[5].clone());
  return gradient_case(forward, "BatchNormalizationGrad", std::move(inputs),
                       {forward.outputs[0], results[4].type(), results[4].type()});
}

// The gradient of a batch_norm_case that is not in training: by its running statistics.
inline OpCase fixed_batch_norm_gradient(const OpCase& forward, const Tensor& dy) {
  std::vector<Tensor> inputs;
  inputs.push_back(dy.clone());
  for (const std::size_t i : {0, 1, 3, 4}) inputs.push_back(forward.inputs[i].clone());
  const TensorType per_channel = forward.inputs[1].type();
  OpCase gradient = gradient_case(forward, "BatchNormalizationGrad", std::move(inputs),
                                  {forward.outputs[0], per_channel, per_channel});
  gradient.op.attributes["running_statistics"] = std::int64_t{1};
  return gradient;
}

struct AttentionSpec {
  std::int64_t batch, heads, rows, columns, depth, width;
  enum class Form : std::uint8_t { kPacked, kMerged, kApart } form = Form::kMerged;
  bool causal = false;
  float ratio = 0;
  std::optional<TensorType> mask = {};
};

inline std::vector<AttentionSpec> attention_specs() {
  using enum AttentionSpec::Form;
  const TensorType added{DType::kF32, {33, 47}};
  const TensorType seen{DType::kBool, {2, 1, 1, 47}};
  return {
      {2, 3, 11, 11, 16, 16, kPacked, true, 0.1F},
      {1, 2, 128, 128, 64, 64, kPacked},
      {2, 2, 33, 47, 5, 7, kMerged, false, 0, added},
      {2, 2, 33, 47, 16, 3, kApart, true, 0.3F, seen},
      {1, 1, 300, 300, 8, 8, kPacked, true, 0.2F},
      {1, 1, 520, 130, 4, 4, kMerged},
      {1, 2, 200, 70, 8, 8, kMerged, true},
      {1, 1, 520, 130, 4, 4, kMerged, true, 0.2F},
      {1, 2, 1, 2, 1, 1, kApart},
  };
}

// The training form.
inline OpCase attention_case(const AttentionSpec& s, Random& random) {
  std::map<std::string, Attribute> attributes{{"is_causal", std::int64_t{s.causal}}, {"ratio", s.ratio}};
  std::vector<Tensor> inputs;
  const bool apart = s.form == AttentionSpec::Form::kApart;
  const bool packed = s.form == AttentionSpec::Form::kPacked;
  if (!apart) attributes["num_heads"] = s.heads;
  const auto shape = [&](std::int64_t rows, std::int64_t depth) {
    return apart ? Shape{s.batch, s.heads, rows, depth} : Shape{s.batch, rows, s.heads * depth};
  };
  inputs.push_back(
      random_tensor(packed ? shape(s.rows, 3 * s.depth) : shape(s.rows, s.depth), random, -2, 2));
  for (const std::int64_t depth : {s.depth, s.width})
    inputs.push_back(packed ? Tensor(TensorType{}) : random_tensor(shape(s.columns, depth), random, -2, 2));
  if (s.mask && s.mask->dtype == DType::kF32) inputs.push_back(random_tensor(s.mask->shape, random));
  if (s.mask && s.mask->dtype == DType::kBool) {
    inputs.emplace_back(*s.mask);
    for (bool& seen : inputs.back().as<bool>()) seen = random() % 3 != 0;
  }
  OpCase test = make_case("Attention", attributes, std::move(inputs),
                          {{DType::kF32, shape(s.rows, s.width)}, {DType::kF32, {s.batch, s.heads, s.rows}}});
  if (packed) test.op.inputs[1] = test.op.inputs[2] = kNoValue;
  test.context = {.step = 12345, .micro_batch = 3};
  return test;
}

inline OpCase attention_gradient(const OpCase& forward, const std::vector<Tensor>& results,
                                 const Tensor& dy) {
  std::vector<Tensor> inputs;
  inputs.push_back(dy.clone());
  for (const Tensor& input : forward.inputs) inputs.push_back(input.clone());
  if (forward.inputs.size() < 4) inputs.emplace_back(TensorType{});
  inputs.push_back(results[1].clone());
  OpCase test = gradient_case(forward, "AttentionGrad", std::move(inputs),
                              {forward.inputs[0].type(), forward.inputs[1].type(), forward.inputs[2].type()});
  for (const std::size_t i : {1U, 2U}) {
    if (forward.op.inputs[i] != kNoValue) continue;
    test.op.inputs[i + 1] = kNoValue;
    test.op.outputs[i] = kNoValue;
  }
  if (forward.inputs.size() < 4) test.op.inputs[4] = kNoValue;
  return test;
}

inline std::vector<std::pair<std::int64_t, std::int64_t>> layer_norm_sizes() {
  return {{1, 6}, {7, 5}, {3, 16}, {200, 48}, {64, 768}, {5, 33}};
}

inline OpCase layer_norm_case(std::int64_t rows, std::int64_t size, bool bias, Random& random) {
  std::vector<Tensor> inputs;
  inputs.push_back(random_tensor({rows, size}, random, -1, 3));
  inputs.push_back(random_tensor({size}, random, 0.5F, 2));
  if (bias) inputs.push_back(random_tensor({size}, random));
  return make_case("LayerNormalization", {{"epsilon", 1e-5F}}, std::move(inputs),
                   {{DType::kF32, {rows, size}}, {DType::kF32, {rows, 1}}, {DType::kF32, {rows, 1}}});
}

inline OpCase layer_norm_gradient(const OpCase& forward, const std::vector<Tensor>& results,
                                  const Tensor& dy) {
  std::vector<Tensor> inputs;
  inputs.push_back(dy.clone());
  for (const std::size_t i : {0U, 1U}) inputs.push_back(forward.inputs[i].clone());
  for (const std::size_t i : {1U, 2U}) inputs.push_back(results[i].clone());
  const TensorType scale = forward.inputs[1].type();
  return gradient_case(forward, "LayerNormalizationGrad", std::move(inputs),
                       {forward.outputs[0], scale, scale});
}

// Ops of one input and one output and of the same shape, or of two inputs.
inline OpCase simple_case(const std::string& type, const Shape& shape, Random& random, int inputs = 1,
                          std::map<std::string, Attribute> attributes = {}) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < inputs; ++i) tensors.push_back(random_tensor(shape, random, -3, 3));
  return make_case(type, std::move(attributes), std::move(tensors), {{DType::kF32, shape}});
}

inline OpCase dropout_case(const Shape& shape, float ratio, Random& random) {
  OpCase test = simple_case("Dropout", shape, random, 1, {{"ratio", ratio}});
  test.op.name = "dropout_1";
  test.outputs.push_back({DType::kU8, shape});
  test.op.outputs.push_back(static_cast<int>(test.op.outputs.size() + 1));
  test.context = {.step = 12345, .micro_batch = 3};
  return test;
}

// A loss with everything that it can say: hits for class indices, the normalizers of cross entropy.
inline OpCase loss_case(const std::string& type, Tensor prediction, Tensor target,
                        std::map<std::string, Attribute> attributes = {}) {
  std::vector<Tensor> inputs;
  inputs.push_back(std::move(prediction));
  inputs.push_back(std::move(target));
  std::vector<std::int64_t> positions(inputs[0].shape().dims().begin(), inputs[0].shape().dims().end());
  if (const auto axis = attributes.find("class_axis"); axis == attributes.end()) {
    positions.pop_back();
  } else {
    positions.erase(positions.begin() + std::get<std::int64_t>(axis->second));
  }
  const auto ignored = attributes.find("ignore_index");
  std::int64_t counted = 0;
  if (ignored != attributes.end()) {
    for (const std::int64_t label : inputs[1].as<std::int64_t>())
      counted += label == std::get<std::int64_t>(ignored->second) ? 0 : 1;
  }
  OpCase test = make_case(type, std::move(attributes), std::move(inputs),
                          {{DType::kF32, {}},
                           {DType::kI64, {2}},
                           {DType::kF32, Shape(std::span<const std::int64_t>(positions))}});
  if (test.inputs[1].type().dtype != DType::kI64) test.op.outputs[1] = kNoValue;
  if (type != "CrossEntropyLoss") test.op.outputs[2] = kNoValue;
  if (test.op.attributes.contains("ignore_index")) {
    test.inputs.emplace_back(DType::kI64, Shape{test.inputs[0].shape()[0]});  // sample ids
    test.inputs.emplace_back(DType::kI64, Shape{1});
    test.inputs[3].as<std::int64_t>()[0] = counted;
    test.op.inputs = {0, 1, 2, 3};
  }
  return test;
}

inline OpCase loss_case(const std::string& type, std::int64_t rows, std::int64_t classes, Random& random,
                        std::map<std::string, Attribute> attributes = {}) {
  return loss_case(type, random_tensor({rows, classes}, random, -4, 4), random_labels(rows, classes, random),
                   std::move(attributes));
}

// Its gradient op, with what the forward op keeps for it.
inline OpCase loss_gradient(const OpCase& forward) {
  std::vector<Tensor> inputs;
  inputs.push_back(forward.inputs[0].clone());
  inputs.push_back(forward.inputs[1].clone());
  const bool is_cross_entropy = forward.op.type == "CrossEntropyLoss";
  if (is_cross_entropy) inputs.push_back(std::move((*run_on("eigen", forward))[2]));
  if (forward.inputs.size() > 3) inputs.push_back(forward.inputs[3].clone());
  return gradient_case(forward, forward.op.type + "Grad", std::move(inputs), {forward.inputs[0].type()});
}

// Every loss, with all its options.
inline std::vector<OpCase> loss_cases(Random& random) {
  std::vector<OpCase> cases;
  for (const std::string& type : operators()) {
    if (!op_definition(type).is_loss || type == "CrossEntropyLoss") continue;
    for (const Shape& shape : {Shape{1}, Shape{7}, Shape{3, 5}, Shape{4, 3, 17}, Shape{64, 100}}) {
      cases.push_back(
          loss_case(type, random_tensor(shape, random, -4, 4), random_tensor(shape, random, 0, 1)));
    }
  }
  const auto weights = [&](std::int64_t count) {
    std::vector<float> numbers(count);
    for (float& number : numbers) number = std::uniform_real_distribution<float>(0, 3)(random);
    return numbers;
  };
  for (const std::int64_t count : {1, 5, 33}) {
    cases.push_back(loss_case("BceWithLogitsLoss", random_tensor({6, 4, count}, random, -4, 4),
                              random_tensor({6, 4, count}, random, 0, 1), {{"pos_weight", weights(count)}}));
  }
  cases.push_back(loss_case("MseLoss", 6, 5, random, {{"weight", 0.3F}}));
  for (const float smoothing : {0.0F, 0.1F, 1.0F}) {
    for (const bool ignores : {false, true}) {
      for (const auto& [shape, axis] :
           {std::pair(Shape{6, 5}, 1), {Shape{3, 4, 17}, 2}, {Shape{3, 4, 17}, 1}, {Shape{2, 3, 4, 5}, 1}}) {
        std::map<std::string, Attribute> attributes{
            {"class_axis", std::int64_t{axis}}, {"label_smoothing", smoothing}, {"weight", 2.0F}};
        std::vector<std::int64_t> positions(shape.dims().begin(), shape.dims().end());
        positions.erase(positions.begin() + axis);
        Tensor labels(DType::kI64, Shape(std::span<const std::int64_t>(positions)));
        for (auto& label : labels.as<std::int64_t>()) {
          label = std::uniform_int_distribution<std::int64_t>(0, shape[axis] - 1)(random);
          if (ignores && random() % 3 == 0) label = -100;
        }
        if (ignores) attributes["ignore_index"] = std::int64_t{-100};
        cases.push_back(loss_case("CrossEntropyLoss", random_tensor(shape, random, -4, 4), std::move(labels),
                                  attributes));
        if (ignores) continue;
        cases.push_back(loss_case("CrossEntropyLoss", random_tensor(shape, random, -4, 4),
                                  random_tensor(shape, random, 0, 1), attributes));
      }
    }
  }
  return cases;
}

}  // namespace rookery::kernel_tests
