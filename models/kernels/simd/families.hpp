// The kernels of the SIMD back end; nullptr where it does not serve the request.
#pragma once

#include <memory>

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

std::unique_ptr<Kernel> make_softmax(const KernelRequest& request);             // Softmax
std::unique_ptr<Kernel> make_softmax_grad(const KernelRequest& request);        // SoftmaxGrad
std::unique_ptr<Kernel> make_mse(const KernelRequest& request);                 // MseLoss
std::unique_ptr<Kernel> make_mse_grad(const KernelRequest& request);            // MseLossGrad
std::unique_ptr<Kernel> make_cross_entropy(const KernelRequest& request);       // CrossEntropyLoss
std::unique_ptr<Kernel> make_cross_entropy_grad(const KernelRequest& request);  // CrossEntropyLossGrad

}  // namespace rookery::simd
