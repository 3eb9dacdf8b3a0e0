// The kernels of the SIMD back end; nullptr where it does not serve the request.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "models/kernels/kernel.hpp"

namespace rookery::simd {

std::unique_ptr<Kernel> make_conv(const KernelRequest& request);              // Conv
std::unique_ptr<Kernel> make_conv_grad_input(const KernelRequest& request);   // ConvGradInput
std::unique_ptr<Kernel> make_conv_grad_weight(const KernelRequest& request);  // ConvGradWeight

std::unique_ptr<Kernel> make_gemm(const KernelRequest& request);              // Gemm
std::unique_ptr<Kernel> make_gemm_grad_input(const KernelRequest& request);   // GemmGradInput
std::unique_ptr<Kernel> make_gemm_grad_weight(const KernelRequest& request);  // GemmGradWeight

std::unique_ptr<Kernel> make_max_pool(const KernelRequest& request);       // MaxPool
std::unique_ptr<Kernel> make_max_pool_grad(const KernelRequest& request);  // MaxPoolGrad
// AveragePool, GlobalAveragePool; and their gradients
std::unique_ptr<Kernel> make_average_pool(const KernelRequest& request);
std::unique_ptr<Kernel> make_average_pool_grad(const KernelRequest& request);
std::unique_ptr<Kernel> make_blocked_average_pool(const KernelRequest& request);
std::unique_ptr<Kernel> make_blocked_average_pool_grad(const KernelRequest& request);

std::unique_ptr<Kernel> make_batch_norm(const KernelRequest& request);       // BatchNormalization
std::unique_ptr<Kernel> make_batch_norm_grad(const KernelRequest& request);  // BatchNormalizationGrad

std::unique_ptr<Kernel> make_layer_norm(const KernelRequest& request);       // LayerNormalization
std::unique_ptr<Kernel> make_layer_norm_grad(const KernelRequest& request);  // LayerNormalizationGrad
std::unique_ptr<Kernel> make_attention(const KernelRequest& request);        // Attention
std::unique_ptr<Kernel> make_attention_grad(const KernelRequest& request);   // AttentionGrad

std::unique_ptr<Kernel> make_dropout(const KernelRequest& request);        // Dropout in training
std::unique_ptr<Kernel> make_dropout_grad(const KernelRequest& request);   // DropoutGrad
std::unique_ptr<Kernel> make_relu(const KernelRequest& request);           // Relu
std::unique_ptr<Kernel> make_relu_grad(const KernelRequest& request);      // ReluGrad
std::unique_ptr<Kernel> make_function(const KernelRequest& request);       // Gelu, Sigmoid, Tanh
std::unique_ptr<Kernel> make_function_grad(const KernelRequest& request);  // and their gradients
std::unique_ptr<Kernel> make_add(const KernelRequest& request);            // Add

std::unique_ptr<Kernel> make_softmax(const KernelRequest& request);       // Softmax
std::unique_ptr<Kernel> make_softmax_grad(const KernelRequest& request);  // SoftmaxGrad

// By op type; a maker gives nullptr where it does not serve the request.
using Makers = std::map<std::string, std::unique_ptr<Kernel> (*)(const KernelRequest&)>;
void add_losses(Makers& makers);  // losses, and their gradients

// ToBlocked, FromBlocked, and ops in blocked layout (models/graph/op_attributes.hpp).
std::unique_ptr<Kernel> make_conversion(const KernelRequest& request);
std::unique_ptr<Kernel> make_blocked(const KernelRequest& request);

// Conv, ConvGradInput, ConvGradWeight in blocked layout (variant "winograd").
std::unique_ptr<Kernel> make_winograd(const KernelRequest& request);

}  // namespace rookery::simd
