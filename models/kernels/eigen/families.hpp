// The kernels of the Eigen back end by family of ops; each serves the op types named.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "models/kernels/kernel.hpp"

namespace rookery::eigen {

// The parts that these take in ConvTranspose: shapes.hpp.
std::unique_ptr<Kernel> make_conv(const KernelRequest& request);              // Conv
std::unique_ptr<Kernel> make_conv_grad_input(const KernelRequest& request);   // ConvGradInput
std::unique_ptr<Kernel> make_conv_grad_weight(const KernelRequest& request);  // ConvGradWeight

std::unique_ptr<Kernel> make_gemm(const KernelRequest& request);              // Gemm
std::unique_ptr<Kernel> make_gemm_grad_input(const KernelRequest& request);   // GemmGradInput
std::unique_ptr<Kernel> make_gemm_grad_weight(const KernelRequest& request);  // GemmGradWeight

std::unique_ptr<Kernel> make_matmul(const KernelRequest& request);             // MatMul
std::unique_ptr<Kernel> make_matmul_grad_left(const KernelRequest& request);   // MatMulGradLeft
std::unique_ptr<Kernel> make_matmul_grad_right(const KernelRequest& request);  // MatMulGradRight

std::unique_ptr<Kernel> make_concat(const KernelRequest& request);       // Concat
std::unique_ptr<Kernel> make_concat_grad(const KernelRequest& request);  // ConcatGrad

std::unique_ptr<Kernel> make_max_pool(const KernelRequest& request);       // MaxPool
std::unique_ptr<Kernel> make_max_pool_grad(const KernelRequest& request);  // MaxPoolGrad
// AveragePool, GlobalAveragePool; and their gradients
std::unique_ptr<Kernel> make_average_pool(const KernelRequest& request);
std::unique_ptr<Kernel> make_average_pool_grad(const KernelRequest& request);

std::unique_ptr<Kernel> make_batch_norm(const KernelRequest& request);       // BatchNormalization
std::unique_ptr<Kernel> make_batch_norm_grad(const KernelRequest& request);  // BatchNormalizationGrad

// LayerNormalization, GroupNormalization, InstanceNormalization, and their gradients
std::unique_ptr<Kernel> make_row_norm(const KernelRequest& request);
std::unique_ptr<Kernel> make_row_norm_grad(const KernelRequest& request);

std::unique_ptr<Kernel> make_attention(const KernelRequest& request);       // Attention
std::unique_ptr<Kernel> make_attention_grad(const KernelRequest& request);  // AttentionGrad

std::unique_ptr<Kernel> make_reduce_l1(const KernelRequest& request);         // ReduceL1
std::unique_ptr<Kernel> make_reduce_l1_grad(const KernelRequest& request);    // ReduceL1Grad
std::unique_ptr<Kernel> make_reduce_l2(const KernelRequest& request);         // ReduceL2
std::unique_ptr<Kernel> make_reduce_l2_grad(const KernelRequest& request);    // ReduceL2Grad
std::unique_ptr<Kernel> make_reduce_max(const KernelRequest& request);        // ReduceMax
std::unique_ptr<Kernel> make_reduce_max_grad(const KernelRequest& request);   // ReduceMaxGrad
std::unique_ptr<Kernel> make_reduce_mean(const KernelRequest& request);       // ReduceMean
std::unique_ptr<Kernel> make_reduce_mean_grad(const KernelRequest& request);  // ReduceMeanGrad
std::unique_ptr<Kernel> make_reduce_sum(const KernelRequest& request);        // ReduceSum
std::unique_ptr<Kernel> make_reduce_sum_grad(const KernelRequest& request);   // ReduceSumGrad
std::unique_ptr<Kernel> make_cumulative_sum(const KernelRequest& request);    // CumSum

std::unique_ptr<Kernel> make_dropout(const KernelRequest& request);       // Dropout in training
std::unique_ptr<Kernel> make_dropout_grad(const KernelRequest& request);  // DropoutGrad
std::unique_ptr<Kernel> make_relu(const KernelRequest& request);          // Relu
std::unique_ptr<Kernel> make_relu_grad(const KernelRequest& request);     // ReluGrad

std::unique_ptr<Kernel> make_softmax(const KernelRequest& request);           // Softmax
std::unique_ptr<Kernel> make_softmax_grad(const KernelRequest& request);      // SoftmaxGrad
std::unique_ptr<Kernel> make_log_softmax(const KernelRequest& request);       // LogSoftmax
std::unique_ptr<Kernel> make_log_softmax_grad(const KernelRequest& request);  // LogSoftmaxGrad

// By op type. Where the makers of a family are many it adds them itself.
using Makers = std::map<std::string, std::unique_ptr<Kernel> (*)(const KernelRequest&)>;
void add_unary(Makers& makers);      // functions of one number, and their gradients
void add_binary(Makers& makers);     // functions of two numbers, and their gradients
void add_shape(Makers& makers);      // Copy, Transpose, Expand, Tile, and their gradients
void add_parts(Makers& makers);      // Concat, Split, Slice, Pad, Trilu, and their gradients
void add_indexing(Makers& makers);   // Gather, GatherElements, GatherND, ScatterND, and their gradients
void add_selection(Makers& makers);  // comparisons, logic, Where, Min, Max, Cast, and their gradients
void add_resize(Makers& makers);     // Resize and its gradient
void add_recurrent(Makers& makers);  // LSTM, GRU, RNN, and their gradients
void add_losses(Makers& makers);     // losses, and their gradients

// ToBlocked, FromBlocked.
std::unique_ptr<Kernel> make_conversion(const KernelRequest& request);
// An op in blocked layout by the kernel that `make` has for the plain one; nullptr where it has none.
std::unique_ptr<Kernel> make_by_plain(const KernelRequest& request,
                                      std::unique_ptr<Kernel> (*make)(const KernelRequest&));

}  // namespace rookery::eigen
