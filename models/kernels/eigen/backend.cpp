#include "models/kernels/backend.hpp"
#include "models/graph/op_attributes.hpp"
#include "models/kernels/eigen/families.hpp"

namespace rookery {

namespace {

const eigen::Makers& makers() {
  static const eigen::Makers all = [] {
    eigen::Makers known{
        {"Conv", eigen::make_conv},
        {"ConvGradInput", eigen::make_conv_grad_input},
        {"ConvGradWeight", eigen::make_conv_grad_weight},
        {"ConvTranspose", eigen::make_conv_grad_input},
        {"ConvTransposeGradInput", eigen::make_conv},
        {"ConvTransposeGradWeight", eigen::make_conv_grad_weight},
        {"Gemm", eigen::make_gemm},
        {"GemmGradInput", eigen::make_gemm_grad_input},
        {"GemmGradWeight", eigen::make_gemm_grad_weight},
        {"MatMul", eigen::make_matmul},
        {"MatMulGradLeft", eigen::make_matmul_grad_left},
        {"MatMulGradRight", eigen::make_matmul_grad_right},
        {"MaxPool", eigen::make_max_pool},
        {"MaxPoolGrad", eigen::make_max_pool_grad},
        {"AveragePool", eigen::make_average_pool},
        {"AveragePoolGrad", eigen::make_average_pool_grad},
        {"GlobalAveragePool", eigen::make_average_pool},
        {"GlobalAveragePoolGrad", eigen::make_average_pool_grad},
        {"BatchNormalization", eigen::make_batch_norm},
        {"BatchNormalizationGrad", eigen::make_batch_norm_grad},
        {"LayerNormalization", eigen::make_row_norm},
        {"LayerNormalizationGrad", eigen::make_row_norm_grad},
        {"GroupNormalization", eigen::make_row_norm},
        {"GroupNormalizationGrad", eigen::make_row_norm_grad},
        {"InstanceNormalization", eigen::make_row_norm},
        {"InstanceNormalizationGrad", eigen::make_row_norm_grad},
        {"Attention", eigen::make_attention},
        {"AttentionGrad", eigen::make_attention_grad},
        {"ReduceL1", eigen::make_reduce_l1},
        {"ReduceL1Grad", eigen::make_reduce_l1_grad},
        {"ReduceL2", eigen::make_reduce_l2},
        {"ReduceL2Grad", eigen::make_reduce_l2_grad},
        {"ReduceMax", eigen::make_reduce_max},
        {"ReduceMaxGrad", eigen::make_reduce_max_grad},
        {"ReduceMean", eigen::make_reduce_mean},
        {"ReduceMeanGrad", eigen::make_reduce_mean_grad},
        {"ReduceSum", eigen::make_reduce_sum},
        {"ReduceSumGrad", eigen::make_reduce_sum_grad},
        {"CumSum", eigen::make_cumulative_sum},
        {"Dropout", eigen::make_dropout},
        {"DropoutGrad", eigen::make_dropout_grad},
        {"Relu", eigen::make_relu},
        {"ReluGrad", eigen::make_relu_grad},
        {"Softmax", eigen::make_softmax},
        {"SoftmaxGrad", eigen::make_softmax_grad},
        {"ToBlocked", eigen::make_conversion},
        {"FromBlocked", eigen::make_conversion},
        {"LogSoftmax", eigen::make_log_softmax},
        {"LogSoftmaxGrad", eigen::make_log_softmax_grad},
    };
    eigen::add_unary(known);
    eigen::add_binary(known);
    eigen::add_shape(known);
    eigen::add_losses(known);
    eigen::add_parts(known);
    eigen::add_indexing(known);
    eigen::add_selection(known);
    eigen::add_resize(known);
    eigen::add_recurrent(known);
    return known;
  }();
  return all;
}

std::unique_ptr<Kernel> make(const KernelRequest& request) {
  if (is_blocked(request.op)) return eigen::make_by_plain(request, make);
  const auto found = makers().find(request.op.type);
  return found == makers().end() ? nullptr : found->second(request);
}

}  // namespace

const Backend& eigen_backend() {
  // Of every op, also of views: their gradients may need a kernel.
  static const Backend backend{.name = "eigen",
                               .words = {"blocked"},
                               .make = make,
                               .prefers = [](const KernelRequest&) { return true; },
                               .fuses = [](const std::string&) { return false; }};
  return backend;
}

}  // namespace rookery
