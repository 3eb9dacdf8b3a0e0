// Dense tensors: what they are (DType, Shape, TensorType), who owns their memory (Tensor), and
// windows onto memory that somebody else owns (TensorView, ConstTensorView). Row-major. Memory is the host's
// unless a device says otherwise (device.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include "models/base/check.hpp"
#include "models/tensor/device.hpp"

namespace rookery {

enum class DType : std::uint8_t { kF32 = 0, kF64 = 1, kI64 = 2, kI32 = 3, kU8 = 4, kBool = 5 };
constexpr int kDTypes = 6;
constexpr bool is_floating(DType type) {
  return type == DType::kF32 || type == DType::kF64;
}

std::size_t bytes_of(DType type);
// "f32", "f64", "i64", "i32", "u8", "bool".
const char* name_of(DType type);

template <typename T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::kF32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::kF64;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return DType::kI64;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::kI32;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
  return DType::kU8;
}
template <>
constexpr DType dtype_of<bool>() {
  return DType::kBool;
}

// Up to kMaxRank dimensions. In a Graph a dimension may be kBatch: the size of the micro-batch,
// known when the graph is compiled.
constexpr int kMaxRank = 8;
constexpr std::int64_t kBatch = -1;

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  // Counts from the end when `axis` is negative.
  std::int64_t operator[](int axis) const { return dims_[index(axis)]; }
  std::int64_t& operator[](int axis) { return dims_[index(axis)]; }
  std::span<const std::int64_t> dims() const { return {dims_.data(), static_cast<std::size_t>(rank_)}; }
  // Product of all dimensions, 1 for rank 0. DataError when a dimension is negative or the product
  // does not fit.
  std::int64_t elements() const;
  // The same with every kBatch replaced.
  Shape with_batch(std::int64_t batch) const;
  bool operator==(const Shape& other) const;
  // "[64, 1, 8, 8]"; a batch dimension reads "batch".
  std::string to_string() const;

 private:
  std::size_t index(int axis) const;

  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  std::size_t bytes() const;
  bool operator==(const TensorType&) const = default;
  std::string to_string() const;  // "f32[64, 10]"
};

// Memory is aligned to this everywhere, and buffers are padded to a multiple of it.
constexpr std::size_t kAlignment = 64;
constexpr std::size_t align_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

template <typename Byte>
struct BasicTensorView {
  TensorType type;
  Byte* data = nullptr;
  Device* device = nullptr;  // that the memory belongs to; nullptr: the host

  const Shape& shape() const { return type.shape; }
  std::int64_t elements() const { return type.shape.elements(); }
  // The bytes, which must be the host's.
  std::span<Byte> bytes() const {
    ROOKERY_CHECK(device == nullptr, "a tensor of device '{}' read by the host", device->name());
    return {data, type.bytes()};
  }
  // The elements as T, which must be the view's type; the host's, too.
  template <typename T>
  auto as() const {
    ROOKERY_CHECK(device == nullptr, "a tensor of device '{}' read by the host", device->name());
    ROOKERY_CHECK(type.dtype == dtype_of<T>(), "a {} tensor read as {}", name_of(type.dtype),
                  name_of(dtype_of<T>()));
    using Element = std::conditional_t<std::is_const_v<Byte>, const T, T>;
    return std::span<Element>(reinterpret_cast<Element*>(data), static_cast<std::size_t>(elements()));
  }
  operator BasicTensorView<const std::byte>() const { return {type, data, device}; }
};
using TensorView = BasicTensorView<std::byte>;
using ConstTensorView = BasicTensorView<const std::byte>;

// Owned, aligned memory, padded to a multiple of kAlignment. It is zeroed, so that it is resident from the
// beginning, and what is large goes back to the system at the end: planned and measured memory agree.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // The device outlives the buffer. std::bad_alloc.
  explicit AlignedBuffer(std::size_t bytes, Device& device = host_device());
  // Holds anything, and is resident as far as it was written: for who writes all of it.
  static AlignedBuffer unwritten(std::size_t bytes, Device& device);
  std::byte* data() { return memory_.get(); }
  const std::byte* data() const { return memory_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Release {
    Device* device;
    std::size_t bytes;
    void operator()(std::byte* memory) const { device->release(memory, bytes); }
  };
  std::unique_ptr<std::byte, Release> memory_;
  std::size_t size_ = 0;
};

// A tensor that owns its memory. Movable, not copyable: copies are made where they can be seen.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(TensorType type) : type_(type), buffer_(type.bytes()) {}
  Tensor(DType dtype, Shape shape) : Tensor(TensorType{dtype, shape}) {}

  const TensorType& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  TensorView view() { return {type_, buffer_.data()}; }
  ConstTensorView view() const { return {type_, buffer_.data()}; }
  template <typename T>
  std::span<T> as() {
    return view().as<T>();
  }
  template <typename T>
  std::span<const T> as() const {
    return view().as<T>();
  }
  Tensor clone() const;

 private:
  TensorType type_;
  AlignedBuffer buffer_;
};

// Copies the bytes, also between the host and a device; types must be equal.
void copy(ConstTensorView from, TensorView to);

// A tensor for the host to read: the view itself where it is the host's, else a copy.
class HostTensor {
 public:
  explicit HostTensor(ConstTensorView tensor) : view_(tensor) {
    if (tensor.device != nullptr) copy_here();
  }
  ConstTensorView view() const { return view_; }

 private:
  void copy_here();

  Tensor copy_;
  ConstTensorView view_;
};

// Has the host write a tensor: write(view of the tensor itself) where it is the host's, else of memory that
// is copied to it afterwards.
template <typename Write>
void write_from_host(TensorView into, Write write) {
  if (into.device == nullptr) return write(into);
  Tensor staging(into.type);
  write(staging.view());
  copy(staging.view(), into);
}

}  // namespace rookery
