// The kernels of the oneDNN back end. nullptr where oneDNN has no optimised implementation.
#pragma once

#include <memory>

#include "models/kernels/kernel.hpp"

namespace rookery::onednn {

// The parts that these take in ConvTranspose: shapes.hpp.
std::unique_ptr<Kernel> make_conv(const KernelRequest& request);              // Conv
std::unique_ptr<Kernel> make_conv_grad_input(const KernelRequest& request);   // ConvGradInput
std::unique_ptr<Kernel> make_conv_grad_weight(const KernelRequest& request);  // ConvGradWeight

// Any of the three, as products of places (variant "places"): blocked images of small maps.
std::unique_ptr<Kernel> make_place_convolution(const KernelRequest& request);

std::unique_ptr<Kernel> make_gemm(const KernelRequest& request);              // Gemm
std::unique_ptr<Kernel> make_gemm_grad_input(const KernelRequest& request);   // GemmGradInput
std::unique_ptr<Kernel> make_gemm_grad_weight(const KernelRequest& request);  // GemmGradWeight

std::unique_ptr<Kernel> make_matmul(const KernelRequest& request);             // MatMul
std::unique_ptr<Kernel> make_matmul_grad_left(const KernelRequest& request);   // MatMulGradLeft
std::unique_ptr<Kernel> make_matmul_grad_right(const KernelRequest& request);  // MatMulGradRight

// LSTM, GRU, RNN, and their gradients
std::unique_ptr<Kernel> make_recurrent(const KernelRequest& request);
std::unique_ptr<Kernel> make_recurrent_grad_gates(const KernelRequest& request);
std::unique_ptr<Kernel> make_recurrent_grad_weights(const KernelRequest& request);

}  // namespace rookery::onednn
