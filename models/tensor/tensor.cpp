#include "models/tensor/tensor.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "models/base/error.hpp"
#include "models/tensor/dtype_named.hpp"

namespace rookery {
namespace {

// From here on a buffer is a mapping of its own: the heap would keep what is freed. It takes large pages
// where the system has them: kernels walk through many places of it at once.
constexpr std::size_t kOwnMapping = std::size_t{1} << 18;

}  // namespace

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

AlignedBuffer::AlignedBuffer(std::size_t bytes) : size_(align_up(bytes)) {
  if (size_ == 0) return;
  void* memory = nullptr;
  if (size_ >= kOwnMapping) {
    memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      memory = nullptr;
    } else {
      ::madvise(memory, size_, MADV_HUGEPAGE);
    }
  } else {
    memory = std::aligned_alloc(kAlignment, size_);
  }
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0, size_);  // the first steps need not wait for pages
  memory_ = {static_cast<std::byte*>(memory), Free{size_}};
}

void AlignedBuffer::Free::operator()(std::byte* memory) const {
  if (bytes >= kOwnMapping) {
    ::munmap(memory, bytes);
  } else {
    std::free(memory);
  }
}

Tensor Tensor::clone() const {
  Tensor result(type_);
  copy(view(), result.view());
  return result;
}

void copy(ConstTensorView from, TensorView to) {
  ROOKERY_CHECK(from.type == to.type, "copying {} into {}", from.type.to_string(), to.type.to_string());
  if (!to.bytes().empty()) std::memcpy(to.data, from.data, to.bytes().size());
}

}  // namespace rookery
