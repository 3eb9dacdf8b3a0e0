// Shared by kernels that move elements as bytes, whatever their type. Internal to this module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "models/base/check.hpp"
#include "models/tensor/tensor.hpp"

namespace rookery::eigen {

// body(std::integral_constant<std::size_t, bytes of an element>).
template <typename Body>
auto with_element_size(DType type, Body body) {
  switch (bytes_of(type)) {
    case 1:
      return body(std::integral_constant<std::size_t, 1>());
    case 4:
      return body(std::integral_constant<std::size_t, 4>());
    default:
      ROOKERY_CHECK(bytes_of(type) == 8, "elements of {} bytes", bytes_of(type));
      return body(std::integral_constant<std::size_t, 8>());
  }
}

// body(T()) for the floating-point types, those that have gradients.
template <typename Body>
auto with_real(DType type, Body body) {
  ROOKERY_CHECK(is_floating(type), "a gradient of {}", name_of(type));
  if (type == DType::kF64) return body(double());
  return body(float());
}

// n elements of kSize bytes, each `step` elements after the one before on either side.
template <std::size_t kSize>
void move_run(std::byte* to, std::int64_t to_step, const std::byte* from, std::int64_t from_step,
              std::int64_t n) {
  constexpr auto kBytes = static_cast<std::int64_t>(kSize);
  if (to_step == 1 && from_step == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * kSize);
  } else if (to_step == 1) {
    for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + i * kBytes, from + i * from_step * kBytes, kSize);
  } else {
    for (std::int64_t i = 0; i < n; ++i)
      std::memcpy(to + i * to_step * kBytes, from + i * from_step * kBytes, kSize);
  }
}

inline std::vector<std::int64_t> dims_of(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

// Elements between neighbours along each axis.
inline std::vector<std::int64_t> steps_of(const Shape& shape) {
  std::vector<std::int64_t> steps(shape.rank(), 1);
  for (std::size_t axis = steps.size(); axis-- > 1;)
    steps[axis - 1] = steps[axis] * shape[static_cast<int>(axis)];
  return steps;
}

}  // namespace rookery::eigen
