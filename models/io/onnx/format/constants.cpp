#include "models/io/onnx/format/constants.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/io/onnx/format/format.hpp"

namespace rookery {
namespace {

// A few bytes of a file must not become gigabytes.
void check_constant_size(const TensorType& type) {
  if (type.bytes() > kMaxOnnxBytes)
    throw DataError(fmt::format("makes a constant of {} bytes, more than {}", type.bytes(), kMaxOnnxBytes));
}

}  // namespace

std::int64_t checked_dim(std::int64_t dim) {
  if (dim < 1 || dim > kMaxOnnxElements) throw DataError(fmt::format("a dimension of {}", dim));
  return dim;
}

Tensor tensor_of(const Attribute& value) {
  const auto filled = [](auto elements, Shape shape) {
    using Element = typename decltype(elements)::value_type;
    Tensor tensor(dtype_of<Element>(), shape);
    std::ranges::copy(elements, tensor.as<Element>().begin());
    return tensor;
  };
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return filled(std::vector{*integer}, {});
  if (const auto* number = std::get_if<float>(&value)) return filled(std::vector{*number}, {});
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value))
    return filled(*integers, {std::ssize(*integers)});
  if (const auto* numbers = std::get_if<std::vector<float>>(&value))
    return filled(*numbers, {std::ssize(*numbers)});
  throw DataError("a text as value is not supported");
}

Tensor repeated_constant(const std::vector<std::int64_t>& dims, std::optional<Tensor> element) {
  if (!element) element.emplace(DType::kF32, Shape{1});
  if (element->shape().elements() != 1) throw DataError("its value is not one element");
  for (const std::int64_t dim : dims) checked_dim(dim);
  const TensorType type{element->type().dtype, Shape(dims)};
  check_constant_size(type);
  Tensor tensor(type);
  const auto one = element->view().bytes();
  const auto all = tensor.view().bytes();
  for (std::size_t i = 0; i < all.size(); i += one.size())
    std::ranges::copy(one, all.begin() + static_cast<std::ptrdiff_t>(i));
  return tensor;
}

Tensor range_constant(const std::vector<std::int64_t>& range) {
  const auto start = static_cast<std::uint64_t>(range[0]);
  const auto limit = static_cast<std::uint64_t>(range[1]);
  const auto delta = static_cast<std::uint64_t>(range[2]);
  const bool up = range[2] > 0;
  if (range[2] == 0 || (up ? range[0] >= range[1] : range[0] <= range[1]))
    throw DataError(fmt::format("nothing lies from {} to {} in steps of {}", range[0], range[1], range[2]));
  // Unsigned: neither the distance nor the step overflows.
  const std::uint64_t last = up ? (limit - start - 1) / delta : (start - limit - 1) / (0 - delta);
  if (last >= kMaxOnnxBytes) throw DataError(fmt::format("makes more than {} numbers", kMaxOnnxBytes));
  const TensorType type{DType::kI64, {static_cast<std::int64_t>(last) + 1}};
  check_constant_size(type);
  Tensor tensor(type);
  for (std::uint64_t i = 0; i <= last; ++i)
    tensor.as<std::int64_t>()[i] = static_cast<std::int64_t>(start + i * delta);
  return tensor;
}

}  // namespace rookery
