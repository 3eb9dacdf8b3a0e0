// A model whose parameters are used again and again: by neighbours, past ops that do not use them, in
// other operators, and twice by one op.
#pragma once

#include "models/graph/ops/builder.hpp"

namespace rookery {

// Without a loss. "key" [24, 12] decodes what it encoded (a product with it, and one with its
// transpose), "core" is a layer that comes three times, "gain" scales in four places and squares in one
// of them, and "code.weight" and the like are used once.
inline Graph tied_model(const Shape& sample, std::int64_t classes, float dropout = 0.1F) {
  GraphBuilder b;
  const Initializer uniform{.kind = Initializer::Kind::kUniform, .bound = 0.3F};
  const std::map<std::string, Attribute> transposed{{"transB", std::int64_t{1}}};
  ValueId x = b.linear("code", b.flatten("flat", b.input("input", sample)), 24);
  const ValueId key = b.parameter("key", {24, 12}, uniform);
  const ValueId core = b.parameter("core.weight", {12, 12}, uniform);
  const ValueId bias = b.parameter("core.bias", {12}, uniform);
  const ValueId gain = b.parameter("gain", {12}, {.kind = Initializer::Kind::kOnes});
  x = b.apply("encode", "Gemm", {x, key});
  x = b.mul("gain_1", x, gain);
  const ValueId skipped = x;
  x = b.tanh("tanh_1", b.apply("core_1", "Gemm", {x, core, bias}, transposed));
  x = b.dropout("drop", b.mul("gain_2", x, b.mul("gain_squared", gain, gain)), dropout);
  x = b.tanh("tanh_2", b.apply("core_2", "Gemm", {x, core, bias}, transposed));
  x = b.add("skip", x, skipped);
  x = b.gelu("gelu", b.apply("decode", "Gemm", {x, key}, transposed));
  x = b.apply("encode_again", "Gemm", {x, key});
  x = b.mul("gain_3", x, gain);
  x = b.apply("core_3", "Gemm", {x, core, bias}, transposed);
  return b.finish(b.linear("classes", x, classes));
}

}  // namespace rookery
