// What is known of every operator: the types it makes, what its training form looks like, its
// gradient, what it costs. One definition an operator, in the file of its family (*_ops.cpp).
//
// Training forms (what to_training makes of an ONNX op):
//   MaxPool             + output window, shape of Y: index of the maximum within the kernel window
//                         (row-major; the first of equals), u8 or for more than 256 elements i32
//   Dropout             + output mask u8, shape of Y: 1 where kept. Element i is kept when word i % 4
//                         of philox({i / 4 low, i / 4 high, stream low, stream high},
//                         rng_key(seed, op name)) >= ratio * 2^32; kept elements times 1 / (1 - ratio)
//   BatchNormalization  attribute training_mode = 1; outputs Y, running mean and variance (the ids of
//                       the buffers themselves, updated in place as PyTorch does: unbiased variance,
//                       new = momentum * old + (1 - momentum) * batch), num_batches_tracked (the
//                       buffer, or kNoValue), saved mean f32[C], saved inverse deviation f32[C].
//                       Its inputs may end in a sixth, i64[] num_batches_tracked. What is run again
//                       (passes/memory/recompute.hpp) has no buffers among its outputs: they are absent in
//                       run(). Where mean and variance are fixed it stays as in evaluation, with the
//                       attribute running_statistics = 1 instead.
//   LayerNormalization  + saved mean and saved inverse deviation: ONNX's second and third output
//   GroupNormalization, InstanceNormalization
//                       + saved mean f32[batch, groups], saved inverse deviation f32[batch, groups]
//
//   LSTM                + outputs gates f32[steps, batch, 4 hidden], after their functions, and cells
//                       f32[steps, batch, hidden]: c of every step
//   GRU                 + outputs gates f32[steps, batch, 3 hidden], and candidates f32[steps, batch,
//   hidden]:
//                       what the reset gate r made of the state h, or with linear_before_reset what it is
//                       multiplied with, R h + bias
//
//   Attention           + output log sum exp f32[batch, heads, rows]: of the scores of each row
//
// What is a constant input in ONNX is an attribute of the same name: shape of Reshape and Expand, axes of
// Squeeze and Unsqueeze, starts, ends, axes and steps of Slice, split of Split, pads and constant_value of
// Pad, repeats of Tile, scales of Resize, k of Trilu, axis of CumSum, ratio of Dropout, min and max of Clip.
// The type that Cast makes is the text `to`: "f32". Where a Reshape's first dimension is the batch its shape
// has 0 or -1 there. ONNX's Constant, ConstantOfShape and Range are constants of the graph.
//
// Operators of our own:
//   Attention(Q, K, V, mask) -> Y: softmax(scale Q K^T + mask) V in every head.
//     Q[batch, rows, num_heads * depth], K[batch, columns, num_heads * depth] and V[batch, columns,
//     num_heads * width] make Y[batch, rows, num_heads * width]; or without num_heads
//     Q[batch, heads, rows, depth] and so on. Without K and V, Q[batch, rows, 3 * num_heads * depth] holds
//     all three side by side. Attributes: scale (1 / sqrt(depth)); is_causal (0): row i sees the columns up
//     to i alone; ratio (0): in training weights are dropped like elements in Dropout, where the weight of
//     row r, counted through batch and heads, and column c is element 16 * ceil(columns / 16) * r + c. The
//     mask, which may be absent and has no gradient, is added to the scores, or when of bool says what is
//     seen; it broadcasts to [batch, heads, rows, columns]. A row that sees nothing is zero. The scores of
//     the whole batch are never in memory at once, and backward computes them again.
//   LSTM(X, W, R, input bias, state bias, initial h, initial c) -> Y, last h, last c; GRU and RNN without c.
//     ONNX's in one direction, without its dimension of directions: X f32[steps, batch, input],
//     W f32[gates * hidden, input], R f32[gates * hidden, hidden], biases f32[gates * hidden] (both or none),
//     states f32[batch, hidden] (absent: zeros; both or none), Y f32[steps, batch, hidden]. Outputs but the
//     first may be absent. Attributes: direction ("forward"; "reverse" goes from the last step to the first);
//     gates, the order of the gates' rows: ONNX's ("iofc", "zrh"; "h"), or PyTorch's ("ifco", "rzh");
//     hidden_size, which may be left out; linear_before_reset (0) of GRU; function of RNN: "Tanh" or "Relu".
//   Losses(prediction f32[n, …], target, sample ids i64[n], counted i64[1]) -> loss f32[], hits i64[2],
//   to PyTorch's definitions. A target is of the prediction's type or, as i64, holds class indices: those of
//   others than the model's classes are a DataError. NaN in prediction or target makes the loss NaN.
//     MseLoss            mean of (x - t)^2; class indices i64[n] for f32[n, classes] stand for one-hot
//                        vectors
//
//     L1Loss             mean of |x - t|
//
//     MeanLoss           mean of x; its target is x itself
//
//     BceWithLogitsLoss  mean of softplus(-x) (1 + (pos_weight - 1) t) + (1 - t) x; pos_weight: floats,
//                        none, one, or one for each of the last axis
//
//     CrossEntropyLoss   mean over positions of -sum_c t_c log softmax(x)_c, the classes c lying along
//                        class_axis (-1). Target: probabilities, or class indices of the prediction's shape
//                        without that axis. label_smoothing s: t becomes t (1 - s) + s / classes.
//                        ignore_index: positions with this label do not count.
//   `sample ids` takes no part in the arithmetic: with it the ids travel to the stage that has the target.
//   The loss is the mean over the micro-batch, so that the batch's is the sum of the micro-batches', times
//   StepContext::loss_weight each. With ignore_index that needs `counted`, the number of positions of the
//   whole batch that count: the loss is the sum over the micro-batch / (counted * loss_weight), 0 where
//   counted is 0. `counted` and ignore_index come together. `hits`, where targets are class indices:
//   positions whose largest value, the first of equals, is the label, and positions that count. In training
//   form CrossEntropyLoss has a third output, its normalizers log sum exp(x), f32 of the positions. `weight`
//   (1): factor of the gradient; the loss is without it.
//   Detach(x) -> x: no gradient goes through it.
//   Gather has an attribute padding_idx of ours: the row of its data that gets no gradient (-1: none).
//   ToBlocked(x f32[n, c, h, w]) -> f32[n, c / 16, h, w, 16], and FromBlocked, its reverse
// Gradient operators carry the attributes of their forward op and its name as "forward":
//   ConvGradInput(dY, W) -> dX                  ConvGradWeight(dY, X) -> dW, dB (either may be absent)
//   ConvTransposeGradInput, ConvTransposeGradWeight: the same
//   GemmGradInput(dY, B) -> dA                  GemmGradWeight(dY, A) -> dB, dC (may be absent)
//   MatMulGradLeft(dY, B) -> dA                 MatMulGradRight(dY, A) -> dB
//     summed where an operand was repeated
//   <Op>Grad(dY, X, scale, saved mean, saved inverse deviation) -> dX (may be absent), dscale, dbias
//     for LayerNormalization, GroupNormalization, InstanceNormalization
//   BatchNormalizationGrad(dY, X, scale, saved mean, saved inverse deviation)
//                                               -> dX (may be absent), dscale, dbias
//     with running_statistics the last two are the mean and the variance, which dX does not go through
//   MaxPoolGrad(dY, window) -> dX               DropoutGrad(dY, mask) -> dX
//   AveragePoolGrad(dY) -> dX                   GlobalAveragePoolGrad(dY) -> dX
//   ReluGrad(dY, Y) -> dX                       SoftmaxGrad(dY, Y) -> dX
//   LogSoftmaxGrad(dY, Y) -> dX
//   ReduceMeanGrad(dY) -> dX, ReduceSumGrad(dY) -> dX
//   ReduceMaxGrad(dY, X, Y) -> dX: equals share
//   CumSum(dY) -> dX, from the other side
//   ReduceL1Grad(dY, X) -> dX, ReduceL2Grad(dY, X, Y) -> dX: 0 where the norm is 0, as in PyTorch
//   AttentionGrad(dY, Q, K, V, mask, log sum exp) -> dQ, dK, dV
//   FlattenGrad(dY) -> dX, a view               Identity(dY) -> dX, a view
//   LSTMGradGates(dY, dlast h, dlast c, R, Y, initial h, initial c, gates, cells) -> dgates before their
//     functions, dinitial h, dinitial c; GRUGradGates(dY, dlast h, R, Y, initial h, gates, candidates) ->
//     dgates, dcandidates (0 without linear_before_reset), dinitial h;
//     RNNGradGates(dY, dlast h, R, Y, initial h) -> dgates, dinitial h
//   <Op>GradWeights(dgates, X, Y, initial h) -> dW, dR, dinput bias, dstate bias (each may be absent) for
//     LSTM and RNN; GRUGradWeights has dcandidates and candidates as further inputs. dX is MatMul(dgates, W)
//   Functions f of one number: <Op>Grad(dY, Y) -> dX for Exp, Sigmoid, Sqrt, Tanh; <Op>Grad(dY, X) -> dX
//     for Abs, Clip, Cos, Elu, Erf, Gelu, HardSigmoid, HardSwish, LeakyRelu, Log, Sin, Softplus; Neg(dY) ->
//     dX. At a kink the derivative is PyTorch's. Clip has its bounds as attributes min and max (absent:
//     none).
//   Functions of two numbers, f(A, B) with broadcasting: <Op>GradLeft(dY, A, B) -> dA and
//     <Op>GradRight(dY, A, B) -> dB for Add, Div, Mul, PRelu, Pow, Sub, where A or B is absent when the
//     derivative does not need it; sums over repeated elements go in dY's order.
//   <Loss>Grad(prediction, target) -> dprediction, and CrossEntropyLossGrad(logits, target, normalizers,
//     counted (may be absent)) -> dlogits: times weight and StepContext::loss_weight
//   What moves elements; sums over elements that were repeated go in dY's order:
//     ReshapeGrad(dY) -> dX, a view, for Reshape, Squeeze, Unsqueeze
//     <Op>Grad(dY) -> dX for Expand, Pad, Resize, Slice, Tile, Transpose; Trilu(dY) -> dX
//     ConcatGrad(dY) -> dX…, one for every input    SplitGrad(dY…) -> dX; an absent dY is zeros
//     GatherGrad(dY, indices) -> ddata              GatherElementsGrad(dY, indices) -> ddata
//     GatherNDGrad(dY, indices) -> ddata
//   ScatterNDGradData(dY, indices) -> ddata: 0 where updates were written; where they were added, it is
//     Identity(dY). ScatterNDGradUpdates(dY, indices) -> dupdates: as in PyTorch's index_put_, an update that
//     a later one overwrote has a gradient, too
//   WhereGradLeft(dY, condition), WhereGradRight(dY, condition) -> gradient of the second, third input
//   ExtremumGrad(dY, Y, X…) -> gradient of the input number `input` of Min and Max: inputs that are equal
//     to Y have equal shares of dY, as PyTorch's maximum and amax
//   CastGrad(dY) -> dX
//   Add(a, b) sums contributions to one gradient.
//   Copy(dW) -> dW: the gradient of a parameter, where a view would be one of other memory.
// An op with several outputs has a gradient where one of them has.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

class GradientBuilder;

struct OpDefinition {
  std::string type;
  // Types of all outputs that the op has. `inputs` holds one entry per input, an empty f32[] where
  // an optional one is absent. Throws ConfigError with the reason; the caller adds the op's name.
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
  enum class Images : std::uint8_t { kNone, kFirst, kAll };
  Images images = Images::kNone;
  bool takes_image(std::size_t input) const {
    return images == Images::kAll || (images == Images::kFirst && input == 0);
  }
  // Its output is what training makes small.
  bool is_loss = false;
};

bool is_view(const Op& op);

// The definition; ConfigError naming the operator when there is none.
const OpDefinition& op_definition(const std::string& type);

// The names of all that have one, gradient operators included.
std::vector<std::string> operators();

}  // namespace rookery
