#include "models/tensor/tensor.hpp"

#include <algorithm>
#include <utility>

#include "models/base/error.hpp"
#include "models/tensor/dtype_named.hpp"

namespace rookery {
std::size_t bytes_of(DType type) {
  constexpr std::array<std::size_t, kDTypes> kBytes{4, 8, 8, 4, 1, 1};
  return kBytes.at(static_cast<std::size_t>(type));
}

const char* name_of(DType type) {
  constexpr std::array<const char*, kDTypes> kNames{"f32", "f64", "i64", "i32", "u8", "bool"};
  return kNames.at(static_cast<std::size_t>(type));
}

std::optional<DType> dtype_named(const std::string& name) {
  for (int i = 0; i < kDTypes; ++i) {
    if (name == name_of(static_cast<DType>(i))) return static_cast<DType>(i);
  }
  return std::nullopt;
}

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  if (dims.size() > kMaxRank) {
    throw DataError(
        fmt::format("a tensor of {} dimensions; at most {} are supported", dims.size(), kMaxRank));
  }
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

std::size_t Shape::index(int axis) const {
  const int from_start = axis < 0 ? axis + rank_ : axis;
  ROOKERY_CHECK(from_start >= 0 && from_start < rank_, "axis {} of shape {}", axis, to_string());
  return static_cast<std::size_t>(from_start);
}

std::int64_t Shape::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t dim : dims()) {
    // 2^56 elements of 8 bytes still count in 63 bits.
    if (dim < 0 || __builtin_mul_overflow(product, dim, &product) || product > (std::int64_t{1} << 56)) {
      throw DataError(fmt::format("shape {} has no usable number of elements", to_string()));
    }
  }
  return product;
}

Shape Shape::with_batch(std::int64_t batch) const {
  Shape result = *this;
  for (int axis = 0; axis < rank_; ++axis) {
    if (result[axis] == kBatch) result[axis] = batch;
  }
  return result;
}

bool Shape::operator==(const Shape& other) const {
  return std::ranges::equal(dims(), other.dims());
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (const std::int64_t dim : dims()) {
    if (text.size() > 1) text += ", ";
    text += dim == kBatch ? "batch" : std::to_string(dim);
  }
  return text + "]";
}

std::size_t TensorType::bytes() const {
  return static_cast<std::size_t>(shape.elements()) * bytes_of(dtype);
}

std::string TensorType::to_string() const {
  return name_of(dtype) + shape.to_string();
}

AlignedBuffer::AlignedBuffer(std::size_t bytes, Device& device) : AlignedBuffer(unwritten(bytes, device)) {
  if (size_ > 0) device.fill(memory_.get(), std::byte{0}, size_);  // the first steps need not wait for pages
}

AlignedBuffer AlignedBuffer::unwritten(std::size_t bytes, Device& device) {
  AlignedBuffer buffer;
  buffer.size_ = align_up(bytes);
  if (buffer.size_ > 0) buffer.memory_ = {device.allocate(buffer.size_), Release{&device, buffer.size_}};
  return buffer;
}

Tensor Tensor::clone() const {
  Tensor result(type_);
  copy(view(), result.view());
  return result;
}

void copy(ConstTensorView from, TensorView to) {
  ROOKERY_CHECK(from.type == to.type, "copying {} into {}", from.type.to_string(), to.type.to_string());
  const std::size_t bytes = to.type.bytes();
  if (bytes == 0) return;
  if (from.device == to.device)
    return (to.device == nullptr ? host_device() : *to.device).copy(from.data, to.data, bytes);
  ROOKERY_CHECK(from.device == nullptr || to.device == nullptr, "copying from device '{}' to device '{}'",
                from.device->name(), to.device->name());
  if (from.device == nullptr) return to.device->copy_from_host(from.data, to.data, bytes);
  from.device->copy_to_host(from.data, to.data, bytes);
}

void HostTensor::copy_here() {
  copy_ = Tensor(view_.type);
  rookery::copy(view_, copy_.view());
  view_ = std::as_const(copy_).view();
}

}  // namespace rookery
