#include "models/kernels/shapes/shapes.hpp"

#include <algorithm>
#include <cmath>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/op_attributes.hpp"

namespace rookery {

namespace {

std::int64_t elements_between(const Shape& shape, int first, int last) {
  std::int64_t product = 1;
  for (int axis = first; axis < last; ++axis) product *= shape[axis];
  return product;
}

// Of an argument of `op`.
Shape image_of(const Op& op, const Shape& shape) {
  return is_blocked(op) && shape.rank() == 5 ? plain_shape(shape) : shape;
}

}  // namespace

bool is_transposed(const Op& op) {
  return op.type.starts_with("ConvTranspose");
}

ConvShape conv_shape(const KernelRequest& request) {
  const Op& op = request.op;
  const bool transposed = is_transposed(op);
  const bool of_weight = op.type.ends_with("GradWeight");
  const bool convolves = op.type == "Conv" || op.type == "ConvTransposeGradInput";
  const TensorType& image = of_weight   ? request.inputs[transposed ? 0 : 1]
                            : convolves ? request.inputs[0]
                                        : request.outputs[0];
  const TensorType& map = of_weight   ? request.inputs[transposed ? 1 : 0]
                          : convolves ? request.outputs[0]
                                      : request.inputs[0];
  const Shape x = image_of(op, image.shape);
  const Shape y = image_of(op, map.shape);
  const Shape& w = (of_weight ? request.outputs[0] : request.inputs[1]).shape;
  const Plane in = plane_of(x);
  const Plane out = plane_of(y);
  return {.batch = x[0],
          .in_channels = x[1],
          .in_h = in[0],
          .in_w = in[1],
          .out_channels = y[1],
          .out_h = out[0],
          .out_w = out[1],
          .groups = op.integer("group", 1),
          .window = transposed ? conv_transpose_window(op, y, w).window : conv_window(op, x, w)};
}

PoolShape pool_shape(const KernelRequest& request) {
  const std::string& type = request.op.type;
  const Shape x =
      image_of(request.op, (type.ends_with("Grad") ? request.outputs[0] : request.inputs[0]).shape);
  const Window window = type.starts_with("Global") ? global_window(x) : pool_window(request.op, x);
  const Plane in = plane_of(x);
  return {.planes = x[0] * x[1],
          .in_h = in[0],
          .in_w = in[1],
          .out_h = window.output[0],
          .out_w = window.output[1],
          .window = window};
}

std::vector<Averaged> averaged(const KernelRequest& request, const PoolShape& shape, std::size_t axis) {
  const Window& window = shape.window;
  const std::int64_t size = axis == 0 ? shape.in_h : shape.in_w;
  const bool padding = request.op.integer("count_include_pad", 0) != 0;
  std::vector<Averaged> all;
  for (std::int64_t i = 0; i < window.output[axis]; ++i) {
    const std::int64_t start = i * window.stride[axis] - window.pad_begin[axis];
    const std::int64_t end = start + window.kernel[axis];
    const std::int64_t first = std::max<std::int64_t>(start, 0);
    const std::int64_t last = std::min(end, size);
    // What ceil_mode adds beyond the padding never counts.
    const std::int64_t with_padding = std::min(end, size + window.pad_end[axis]) - start;
    all.push_back({first, last, padding ? with_padding : last - first});
  }
  return all;
}

GemmShape gemm_shape(const KernelRequest& request) {
  const Op& op = request.op;
  const bool forward = op.type == "Gemm";
  const bool trans_a = op.integer("transA", 0) != 0;
  const bool trans_b = op.integer("transB", 0) != 0;
  const Shape& y = (forward ? request.outputs[0] : request.inputs[0]).shape;
  const std::int64_t k = op.type == "GemmGradInput" ? request.inputs[1].shape[trans_b ? 1 : 0]
                                                    : request.inputs[forward ? 0 : 1].shape[trans_a ? 0 : 1];
  const auto& arguments = forward ? op.inputs : op.outputs;
  const std::size_t c = forward ? 2 : 1;
  return {.m = y[0],
          .n = y[1],
          .k = k,
          .trans_a = trans_a,
          .trans_b = trans_b,
          .alpha = op.number("alpha", 1),
          .beta = op.number("beta", 1),
          .has_c = op.type != "GemmGradInput" && c < arguments.size() && arguments[c] != kNoValue};
}

MatMulShape matmul_shape(const KernelRequest& request) {
  const std::string& type = request.op.type;
  const bool forward = type == "MatMul";
  const bool left = type == "MatMulGradLeft";
  const Shape& a = (forward ? request.inputs[0] : left ? request.outputs[0] : request.inputs[1]).shape;
  const Shape& b = (forward || left ? request.inputs[1] : request.outputs[0]).shape;
  const Shape& y = (forward ? request.outputs[0] : request.inputs[0]).shape;
  const auto batch_of = [](const Shape& shape, int matrix) {
    return Shape(shape.dims().first(std::max(shape.rank() - matrix, 0)));
  };
  const std::int64_t k = a[-1];
  const std::int64_t n = b.rank() == 1 ? 1 : b[-1];
  Shape batch = batch_of(y, (a.rank() > 1 ? 1 : 0) + (b.rank() > 1 ? 1 : 0));
  Shape batch_a = batch_of(a, 2);
  Shape batch_b = batch_of(b, 2);
  std::int64_t m = a.rank() == 1 ? 1 : a[-2];
  if (batch_b.elements() == 1 && batch_a.elements() == batch.elements()) {
    m *= batch.elements();
    batch = batch_a = batch_b = Shape();
  }
  return {.m = m,
          .n = n,
          .k = k,
          .batch = batch.elements(),
          .walk = Broadcasting<2>(batch, {batch_a, batch_b}),
          .a_elements = a.elements(),
          .b_elements = b.elements()};
}

BatchNormShape batch_norm_shape(const KernelRequest& request) {
  const Op& op = request.op;
  const Shape x = image_of(op, request.inputs[op.type == "BatchNormalization" ? 0 : 1].shape);
  return {.batch = x[0],
          .channels = x[1],
          .plane = elements_between(x, 2, x.rank()),
          .epsilon = op.number("epsilon", 1e-5F),
          .momentum = op.number("momentum", 0.9F),
          .training = op.integer("training_mode", 0) != 0,
          .by_running = op.integer("running_statistics", 0) != 0};
}

RowNormShape row_norm_shape(const KernelRequest& request) {
  const Op& op = request.op;
  const bool forward = !op.type.ends_with("Grad");
  const Shape& x = request.inputs[forward ? 0 : 1].shape;
  const float epsilon = op.number("epsilon", 1e-5F);
  if (op.type.starts_with("LayerNormalization")) {
    const std::int64_t size = request.inputs[forward ? 1 : 2].shape.elements();
    return {.rows = x.elements() / std::max<std::int64_t>(size, 1),
            .groups = 1,
            .channels = size,
            .plane = 1,
            .epsilon = epsilon};
  }
  const std::int64_t groups = op.type.starts_with("Instance") ? x[1] : op.integer("num_groups", 1);
  return {.rows = x[0] * groups,
          .groups = groups,
          .channels = x[1] / groups,
          .plane = elements_between(x, 2, x.rank()),
          .epsilon = epsilon};
}

AxisShape axis_shape(const KernelRequest& request) {
  const Shape& shape = request.outputs[0].shape;
  const auto given = static_cast<int>(request.op.integer("axis", -1));
  const int axis = given < 0 ? given + shape.rank() : given;
  return {.outer = elements_between(shape, 0, axis),
          .size = shape[axis],
          .inner = elements_between(shape, axis + 1, shape.rank())};
}

LossShape loss_shape(const KernelRequest& request) {
  const Op& op = request.op;
  const Shape& prediction = request.inputs[0].shape;
  const auto given = static_cast<int>(op.integer("class_axis", -1));
  const int axis = given < 0 ? given + prediction.rank() : given;
  LossShape s{.samples = prediction[0],
              .outer = elements_between(prediction, 0, axis),
              .classes = prediction[axis],
              .inner = elements_between(prediction, axis + 1, prediction.rank()),
              .indices = request.inputs[1].dtype == DType::kI64,
              .weight = op.number("weight", 1),
              .smoothing = op.number("label_smoothing", 0),
              .ignored = {}};
  if (op.attributes.contains("ignore_index")) s.ignored = op.integer("ignore_index", 0);
  return s;
}

bool LossShape::counts(const std::int64_t* labels, std::int64_t position) const {
  const std::int64_t label = labels[position];
  if (ignored && label == *ignored) return false;
  if (label >= 0 && label < classes) return true;
  const std::int64_t each = std::max<std::int64_t>(positions() / std::max<std::int64_t>(samples, 1), 1);
  const std::string place = each == 1 ? "" : fmt::format(", position {}", position % each);
  throw DataError(fmt::format("sample {} of the micro-batch{} has label {}; the model knows classes 0 to {}",
                              position / each, place, label, classes - 1));
}

float loss_of_sum(double sum, std::int64_t terms, const std::int64_t* counted, const StepContext& context) {
  if (counted == nullptr) return static_cast<float>(sum / static_cast<double>(terms));
  if (*counted <= 0) return 0;
  return static_cast<float>(sum / (static_cast<double>(*counted) * static_cast<double>(context.loss_weight)));
}

float gradient_factor(const LossShape& s, std::int64_t terms, const std::int64_t* counted,
                      const StepContext& context) {
  if (counted == nullptr) return s.weight * context.loss_weight / static_cast<float>(terms);
  return *counted <= 0 ? 0 : s.weight / static_cast<float>(*counted);
}

void write_hits(std::int64_t* hits, std::int64_t correct, std::int64_t seen, const std::int64_t* counted) {
  if (counted != nullptr && *counted < seen) {
    throw DataError(
        fmt::format("{} positions of the micro-batch count for the loss, but only {} of the whole "
                    "batch: the data set's targets are not those that were counted",
                    seen, *counted));
  }
  if (hits == nullptr) return;
  hits[0] = correct;
  hits[1] = seen;
}

DropoutShape dropout_shape(const KernelRequest& request) {
  const float ratio = request.op.number("ratio", 0.5F);
  if (!(ratio >= 0 && ratio < 1)) {
    throw ConfigError(fmt::format("{}: a dropout ratio of {} is not in [0, 1)", request.op.name, ratio));
  }
  // The largest float below 1 still gives a threshold below 2^32.
  const double threshold = std::ceil(static_cast<double>(ratio) * 4294967296.0);
  return {.elements = request.outputs[0].shape.elements(),
          .threshold = static_cast<std::uint32_t>(threshold),
          .scale = 1.0F / (1.0F - ratio)};
}

}  // namespace rookery
