// The definition of an operator: what it computes, what it looks like in a file, the types it makes, its
// training form, its gradient and its cost. Each operator has one definition, in the file of its family
// (ops/*_ops.cpp).
//
// These rules hold for all of them:
//   - Operators of ONNX mean what ONNX says (https://onnx.ai/onnx/operators/, operator set 17), except that a
//     constant input there is an attribute of the same name here. ONNX's Constant, ConstantOfShape and Range
//     are constants of the graph.
//   - A gradient operator has the attributes of its forward op, and that op's name as the attribute
//     "forward". Its outputs are added to the gradients of what they are named after and have its type: dX
//     that of X. Each of them may be absent, where nobody wants that gradient.
//   - An op with several outputs has a gradient where one of them has.
//   - Sums over elements that the forward op repeated go in the order of dY's elements.
//   - Add(a, b) also sums two contributions to one gradient, unless the ReluGrad that reads it does;
//     Copy(dW) -> dW gives the gradient of a parameter memory of its own.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/graph/graph.hpp"
#include "models/graph/op_signature.hpp"

namespace rookery {

class GradientBuilder;

// Stands for all inputs, in a list of some of them.
constexpr std::size_t kEveryInput = static_cast<std::size_t>(-1);

struct OpDefinition {
  std::string type;
  // Says what the op takes, makes and computes, for those who write kernels and models. It begins with the
  // inputs and the outputs, "(X, W, bias?) -> Y", and may go on after ": " with sentences. A '?' marks what
  // may be absent, and "…" what may be there any number of times. Outputs that only the training form has are
  // marked '?', too, and described after "Training form:". Of ONNX's operators it tells what ONNX's
  // documentation leaves open.
  std::string description;
  // Absent where files do not have the operator, or have it as a function (models/io/FORMAT.md).
  std::optional<OpSignature> signature = {};
  // Types of all outputs that the op has. `inputs` holds one entry per input, an empty f32[] where
  // an optional one is absent. Throws ConfigError with the reason; the caller adds the op's name. Absent for
  // gradient operators, whose outputs have the types of the values that they are gradients of.
  std::function<std::vector<TensorType>(const Op&, std::span<const TensorType> inputs)> infer;
  // Turns the op into the form it has in training: sets attributes, adds outputs that the gradient
  // needs. Absent where nothing changes.
  std::function<void(Graph&, OpId)> to_training;
  // Adds the gradient ops. Absent where the op has no gradient.
  std::function<void(GradientBuilder&, const Op&)> differentiate;
  // Floating-point operations of one run. Absent: one per output element.
  std::function<double(const Op&, std::span<const TensorType> inputs, std::span<const TensorType> outputs)>
      flops;
  // The output is the memory of input 0 and the op has no kernel. Absent: never.
  std::function<bool(const Op&)> is_view;
  // Inputs that output 0 may be written over: every kernel of the op is right when the two are the same
  // memory. For the memory plan, which does so where the types are equal and nobody reads the input
  // afterwards.
  std::vector<std::size_t> in_place;
  // Inputs that are images, f32[n, c, h, w], and may come in blocks of channels (op_attributes.hpp). What
  // is of rank 4 among the outputs is blocked then, too.
  std::vector<std::size_t> images;
  bool takes_image(std::size_t input) const {
    return std::ranges::any_of(images,
                               [&](std::size_t each) { return each == input || each == kEveryInput; });
  }
  // Its output is what training makes small.
  bool is_loss = false;
};

bool is_view(const Op& op);

// The definition; ConfigError naming the operator when there is none.
const OpDefinition& op_definition(const std::string& type);

// The form that this operator has in ONNX files; nullptr when it is unknown, or they do not have it.
const OpSignature* op_signature(const std::string& type);

// The names of all operators that have a definition, gradient operators included, in alphabetical order.
std::vector<std::string> operators();

}  // namespace rookery
