// Builds a Graph layer by layer, with the parameter names and the initial distributions of the
// PyTorch modules of the same name.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

// The values that weight and bias of a layer have before training; where it says nothing as with PyTorch,
// uniform in 1 / sqrt(fan_in).
struct LayerStart {
  std::optional<Initializer> weight;
  std::optional<Initializer> bias;
};

struct RecurrentOptions {
  int layer = 0;
  bool reverse = false;
  bool bias = true;
  std::vector<ValueId> initial = {};                 // h[batch, hidden], and of an LSTM c
  std::map<std::string, Attribute> attributes = {};  // instead of PyTorch's
};

class GraphBuilder {
 public:
  // A model input [batch, dims…].
  ValueId input(const std::string& name, const Shape& sample_shape, DType dtype = DType::kF32);

  // Elements of a kernel along every axis, or along each: {1, 7}.
  struct Kernel {
    Kernel(std::int64_t all) : sizes{all} {}  // NOLINT(*-explicit-*): reads as is
    Kernel(std::initializer_list<std::int64_t> each) : sizes(each) {}
    std::vector<std::int64_t> sizes;
  };
  static constexpr std::int64_t kKeepsSize = -1;  // dilation * (kernel / 2) on all sides
  // As many outputs as strides fit, ceil(size / stride); an odd one of the padding is behind, as TensorFlow's
  // "same" has it.
  static constexpr std::int64_t kSameUpper = -2;
  // torch.nn.Conv1d and Conv2d(in, out, kernel, stride, padding, dilation, groups), weight "<name>.weight",
  // bias "<name>.bias"; all numbers along every axis, `padding` on all sides.
  struct ConvOptions {
    Kernel kernel = 3;
    std::int64_t stride = 1;
    std::int64_t padding = kKeepsSize;
    std::int64_t dilation = 1;
    std::int64_t groups = 1;
    bool bias = true;
    LayerStart start = {};
  };
  ValueId conv1d(const std::string& name, ValueId x, std::int64_t out_channels, const ConvOptions& options);
  ValueId conv2d(const std::string& name, ValueId x, std::int64_t out_channels, const ConvOptions& options);
  ValueId conv2d(const std::string& name, ValueId x, std::int64_t out_channels) {
    return conv2d(name, x, out_channels, ConvOptions());
  }
  // torch.nn.ConvTranspose1d and ConvTranspose2d(in, out, kernel, stride, padding, output_padding, groups,
  // bias, dilation), parameters as above.
  struct ConvTransposeOptions {
    Kernel kernel = 2;
    std::int64_t stride = 2;
    std::int64_t padding = 0;
    std::int64_t output_padding = 0;
    std::int64_t dilation = 1;
    std::int64_t groups = 1;
    bool bias = true;
    LayerStart start = {};
  };
  ValueId conv_transpose1d(const std::string& name, ValueId x, std::int64_t out_channels,
                           const ConvTransposeOptions& options);
  ValueId conv_transpose2d(const std::string& name, ValueId x, std::int64_t out_channels,
                           const ConvTransposeOptions& options);
  ValueId relu(const std::string& name, ValueId x);
  ValueId relu6(const std::string& name, ValueId x);
  // torch.nn.MaxPool1d, MaxPool2d, AvgPool1d and AvgPool2d(kernel, stride, padding), the same along every
  // axis; an average counts its padding. Padding may be kSameUpper.
  ValueId max_pool1d(const std::string& name, ValueId x, std::int64_t kernel, std::int64_t stride,
                     std::int64_t padding = 0);
  ValueId max_pool2d(const std::string& name, ValueId x, std::int64_t kernel, std::int64_t stride,
                     std::int64_t padding = 0);
  ValueId avg_pool1d(const std::string& name, ValueId x, std::int64_t kernel, std::int64_t stride,
                     std::int64_t padding = 0);
  ValueId avg_pool2d(const std::string& name, ValueId x, std::int64_t kernel, std::int64_t stride,
                     std::int64_t padding = 0);
  // torch.nn.AdaptiveAvgPool1d(1), AdaptiveAvgPool2d(1): [n, c, 1] or [n, c, 1, 1].
  ValueId global_avg_pool(const std::string& name, ValueId x);
  ValueId dropout(const std::string& name, ValueId x, float probability);
  // torch.nn.BatchNorm1d / BatchNorm2d over dimension 1; `momentum` is the share of the new batch.
  ValueId batch_norm(const std::string& name, ValueId x, float epsilon = 1e-5F, float momentum = 0.1F);
  // torch.nn.LayerNorm over the last `dimensions` of x.
  ValueId layer_norm(const std::string& name, ValueId x, int dimensions = 1, float epsilon = 1e-5F);
  // torch.nn.GroupNorm(groups, channels) over dimension 1.
  ValueId group_norm(const std::string& name, ValueId x, std::int64_t groups);
  ValueId flatten(const std::string& name, ValueId x);
  // torch.nn.Linear(in, out) over the last dimension. With more than two it is a Gemm between the views
  // "<name>_rows" and "<name>_parts".
  ValueId linear(const std::string& name, ValueId x, std::int64_t out_features, bool bias = true,
                 const LayerStart& start = {});
  // The same with a weight [out, in] and a bias that are there already; kNoValue: without bias.
  ValueId linear_by(const std::string& name, ValueId x, ValueId weight, ValueId bias);
  ValueId softmax(const std::string& name, ValueId x);
  // torch.nn.LeakyReLU, ELU, GELU, Sigmoid, Tanh.
  ValueId leaky_relu(const std::string& name, ValueId x, float slope = 0.01F);
  ValueId elu(const std::string& name, ValueId x, float alpha = 1);
  ValueId gelu(const std::string& name, ValueId x, const std::string& approximate = "none");
  ValueId sigmoid(const std::string& name, ValueId x);
  ValueId tanh(const std::string& name, ValueId x);
  // x * sigmoid(x), in two ops: "<name>_sigmoid" and "<name>".
  ValueId silu(const std::string& name, ValueId x);
  // numpy.matmul.
  ValueId matmul(const std::string& name, ValueId a, ValueId b);
  // Scaled dot-product attention (attention_ops.cpp) of q, k and v f32[batch, rows, heads * depth], or of all
  // three side by side in `qkv`.
  struct AttentionOptions {
    std::int64_t heads = 1;
    bool is_causal = false;
    float dropout = 0;
    ValueId mask = kNoValue;
  };
  ValueId attention(const std::string& name, ValueId q, ValueId k, ValueId v,
                    const AttentionOptions& options);
  ValueId self_attention(const std::string& name, ValueId qkv, const AttentionOptions& options) {
    return attention(name, qkv, kNoValue, kNoValue, options);
  }
  // With broadcasting.
  ValueId add(const std::string& name, ValueId a, ValueId b);
  ValueId sub(const std::string& name, ValueId a, ValueId b);
  ValueId mul(const std::string& name, ValueId a, ValueId b);
  ValueId div(const std::string& name, ValueId a, ValueId b);
  // x times a parameter "<name>.weight" of `shape`, at first all ones.
  ValueId scale(const std::string& name, ValueId x, const Shape& shape);

  // One dimension of `shape` may be -1, what is left; 0 is that of x: for the batch.
  ValueId reshape(const std::string& name, ValueId x, const std::vector<std::int64_t>& shape);
  ValueId squeeze(const std::string& name, ValueId x, const std::vector<std::int64_t>& axes);
  ValueId unsqueeze(const std::string& name, ValueId x, const std::vector<std::int64_t>& axes);
  // numpy.transpose.
  ValueId transpose(const std::string& name, ValueId x, const std::vector<std::int64_t>& perm);
  ValueId concat(const std::string& name, const std::vector<ValueId>& parts, std::int64_t axis);
  // Parts of these sizes, "<name>_out_0", "<name>_out_1", …
  std::vector<ValueId> split(const std::string& name, ValueId x, const std::vector<std::int64_t>& sizes,
                             std::int64_t axis);
  // x[begin:end:step] along one axis, as in Python.
  ValueId slice(const std::string& name, ValueId x, std::int64_t axis, std::int64_t begin, std::int64_t end,
                std::int64_t step = 1);
  // numpy.take.
  ValueId gather(const std::string& name, ValueId data, ValueId indices, std::int64_t axis = 0);
  // torch.nn.Embedding(count, width) of ids: "<name>.weight", drawn uniformly with the deviation 1 of
  // PyTorch's normal distribution where `initializer` says nothing else.
  ValueId embedding(const std::string& name, ValueId ids, std::int64_t count, std::int64_t width,
                    Initializer initializer = {.kind = Initializer::Kind::kUniform, .bound = 1.7320508F});
  ValueId where(const std::string& name, ValueId condition, ValueId a, ValueId b);
  ValueId cast(const std::string& name, ValueId x, DType to);
  // One direction of one layer of torch.nn.LSTM, GRU or RNN (`type`) over x[steps, batch, input]: the states
  // at all steps, then the last one and of an LSTM its c. Parameters are called as PyTorch's.
  std::vector<ValueId> recurrent(const std::string& name, const std::string& type, ValueId x,
                                 std::int64_t hidden, const RecurrentOptions& options = {});
  // torch.nn.Upsample of an image by a factor, "nearest" or "bilinear".
  ValueId upsample(const std::string& name, ValueId x, float factor, const std::string& mode);
  // numpy.full and numpy.arange as constants, without an op.
  ValueId full(const std::string& name, const Shape& shape, float number);
  ValueId range(const std::string& name, std::int64_t begin, std::int64_t end, std::int64_t step = 1);
  // A constant of these elements, an operand for others.
  ValueId constant(const std::string& name, Tensor elements);
  ValueId constant(const std::string& name, const Shape& shape, const std::vector<float>& elements);
  ValueId constant(const std::string& name, const Shape& shape, const std::vector<std::int64_t>& elements);
  // A parameter by itself, an operand for others.
  ValueId parameter(const std::string& name, const Shape& shape, Initializer initializer = {});
  // Any operator that makes one value, "<name>_out".
  ValueId apply(const std::string& name, const std::string& type, std::vector<ValueId> inputs,
                std::map<std::string, Attribute> attributes = {});

  // Dimensions of a value at a batch of one.
  Shape shape_of(ValueId value) const;

  // x as a value called `name`, for an output that losses name.
  ValueId called(const std::string& name, ValueId x);

  // Marks the model's outputs and hands the graph out.
  Graph finish(ValueId output);
  Graph finish(const std::vector<ValueId>& outputs);

 private:
  using Integers = std::vector<std::int64_t>;

  ValueId append(Op op);
  ValueId conv(const std::string& name, ValueId x, std::int64_t out_channels, std::size_t axes,
               const ConvOptions& options);
  ValueId conv_transpose(const std::string& name, ValueId x, std::int64_t out_channels, std::size_t axes,
                         const ConvTransposeOptions& options);
  // x, a weight [first, second, kernel] and a bias per output channel where wanted.
  std::vector<ValueId> convolution_inputs(const std::string& name, ValueId x, Integers weight,
                                          const Integers& kernel, std::int64_t out_channels, bool bias,
                                          const LayerStart& start);
  ValueId pool(const std::string& name, const std::string& type, ValueId x, const Integers& kernel,
               const Integers& stride, std::int64_t padding);
  Graph graph_;
};

}  // namespace rookery
