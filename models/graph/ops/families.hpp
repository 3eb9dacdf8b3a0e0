// The operators by families, each in the file of its name; operators.cpp puts them together.
#pragma once

#include <vector>

#include "models/graph/op_definition.hpp"

namespace rookery {

std::vector<OpDefinition> convolution_ops();  // Conv, ConvTranspose
std::vector<OpDefinition> pooling_ops();      // MaxPool, AveragePool, GlobalAveragePool
std::vector<OpDefinition> gemm_ops();         // Gemm
std::vector<OpDefinition> matmul_ops();       // MatMul
std::vector<OpDefinition> attention_ops();    // Attention
std::vector<OpDefinition> reduction_ops();    // ReduceL1, ReduceL2, ReduceMax, ReduceMean, ReduceSum, CumSum
std::vector<OpDefinition> batch_norm_ops();   // BatchNormalization
std::vector<OpDefinition> dropout_ops();      // Dropout
std::vector<OpDefinition> row_norm_ops();     // LayerNormalization, GroupNormalization, InstanceNormalization
std::vector<OpDefinition> softmax_ops();      // Softmax, LogSoftmax
std::vector<OpDefinition> elementwise_ops();  // Relu, Identity, Detach, Copy
std::vector<OpDefinition> unary_ops();        // Sigmoid, Tanh, Gelu, …: functions of one number
std::vector<OpDefinition> binary_ops();       // Add, Mul, …: functions of two numbers
std::vector<OpDefinition> loss_ops();         // MseLoss, L1Loss, MeanLoss, …
std::vector<OpDefinition> shape_ops();        // Reshape, Flatten, Transpose, …: another shape or order
std::vector<OpDefinition> part_ops();         // Concat, Split, Slice, Pad, Trilu: joining, taking parts
std::vector<OpDefinition> index_ops();        // Gather, GatherElements, GatherND, ScatterND
std::vector<OpDefinition> selection_ops();    // Where, Min, Max, comparisons, logic, Cast
std::vector<OpDefinition> resize_ops();       // Resize
std::vector<OpDefinition> recurrent_ops();    // LSTM, GRU, RNN
std::vector<OpDefinition> layout_ops();       // ToBlocked, FromBlocked

}  // namespace rookery
