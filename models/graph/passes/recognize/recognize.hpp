// Finds layers that are written out in single ops, and makes one op of them. Its results differ in the last
// bits from those of the single ops, so that it is done on the whole graph, before that is cut.
#pragma once

#include "models/graph/graph.hpp"

namespace rookery {

// Every chain MatMul, Mul or Div by a number, Add of a mask or Where with one, Softmax, Dropout, MatMul
// becomes an Attention (ops/attention_ops.cpp) with the name of the last MatMul; of these ops all but the
// MatMuls and the Softmax may be missing. The numbers may also stand at the query or the key. Reshapes and
// Transposes that part and join the heads become part of it, and so does a Split of q, k and v side by side,
// where nobody else reads what lies between. A constant mask that hides just what comes later becomes
// `is_causal`. A mask that depends on parameters is left as it is, for Attention has no gradient of it.
// Numbers below -1e4 in the place of a score count as -infinity. `forward` has inference form.
Graph recognize_attention(const Graph& forward);

// Every MatMul with a turned parameter, and the Add of a bias, becomes a Gemm of rows with the name of the
// MatMul, as linear() in builder.hpp makes it.
Graph recognize_linear(const Graph& forward);

// Gelu (of erf and of tanh), LayerNormalization and GroupNormalization that are written out become one op
// each, with the name of the last of theirs. A norm needs scale and bias.
Graph recognize_layers(const Graph& forward);

// LSTM, GRU and RNN whose weights are made of parameters in PyTorch's order of gates read the parameters
// themselves, with the attribute `gates`.
Graph recognize_recurrent(const Graph& forward);

}  // namespace rookery
