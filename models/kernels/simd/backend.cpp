#include <map>
#include <string>

#include "models/graph/op_attributes.hpp"
#include "models/kernels/backend.hpp"
#include "models/kernels/shapes.hpp"
#include "models/kernels/simd/dense_convolution.hpp"
#include "models/kernels/simd/families.hpp"

namespace rookery {

namespace {

const simd::Makers& makers() {
  static const simd::Makers all = [] {
    simd::Makers known{
        {"Conv", simd::make_conv},
        {"ConvGradInput", simd::make_conv_grad_input},
        {"ConvGradWeight", simd::make_conv_grad_weight},
        {"Gemm", simd::make_gemm},
        {"GemmGradInput", simd::make_gemm_grad_input},
        {"GemmGradWeight", simd::make_gemm_grad_weight},
        {"MaxPool", simd::make_max_pool},
        {"MaxPoolGrad", simd::make_max_pool_grad},
        {"AveragePool", simd::make_average_pool},
        {"AveragePoolGrad", simd::make_average_pool_grad},
        {"GlobalAveragePool", simd::make_average_pool},
        {"GlobalAveragePoolGrad", simd::make_average_pool_grad},
        {"BatchNormalization", simd::make_batch_norm},
        {"BatchNormalizationGrad", simd::make_batch_norm_grad},
        {"Dropout", simd::make_dropout},
        {"DropoutGrad", simd::make_dropout_grad},
        {"LayerNormalization", simd::make_layer_norm},
        {"LayerNormalizationGrad", simd::make_layer_norm_grad},
        {"Attention", simd::make_attention},
        {"AttentionGrad", simd::make_attention_grad},
        {"Relu", simd::make_relu},
        {"ReluGrad", simd::make_relu_grad},
        {"Add", simd::make_add},
        {"Softmax", simd::make_softmax},
        {"SoftmaxGrad", simd::make_softmax_grad},
        {"ToBlocked", simd::make_conversion},
        {"FromBlocked", simd::make_conversion},
    };
    for (const char* function :
         {"Clip", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Sigmoid", "Tanh"}) {
      known.emplace(function, simd::make_function);
      known.emplace(std::string(function) + "Grad", simd::make_function_grad);
    }
    simd::add_losses(known);
    return known;
  }();
  return all;
}

std::unique_ptr<Kernel> make(const KernelRequest& request) {
  if (is_blocked(request.op)) return simd::make_blocked(request);
  const auto found = makers().find(request.op.type);
  return found == makers().end() ? nullptr : found->second(request);
}

// Up to here our tiles beat oneDNN, which pays for layouts and packing.
constexpr std::int64_t kMostProducts = 1 << 22;
constexpr std::int64_t kMostDepth = 64;

bool prefers(const KernelRequest& request) {
  const std::string& type = request.op.type;
  if (type == "Gemm") {
    const GemmShape s = gemm_shape(request);
    return s.m * s.n * s.k <= kMostProducts && make(request) != nullptr;
  }
  if (type == "Conv") {
    const ConvShape s = conv_shape(request);
    const bool small = s.depth() <= kMostDepth && s.batch * s.out_plane() * s.weights() <= kMostProducts * 4;
    return s.groups == 1 && (simd::is_tiny(s) || small);
  }
  if (type == "Dropout") return true;  // its training form
  return makers().contains(type) && make(request) != nullptr;
}

}  // namespace

const Backend& simd_backend() {
  static const Backend backend{.name = "simd",
                               .words = {"blocked", "winograd"},
                               .make = make,
                               .prefers = prefers,
                               .fuses = [](const std::string& type) {
                                 return type == "BatchNormalization" || type == "Conv" || type == "Gemm";
                               }};
  return backend;
}

}  // namespace rookery
