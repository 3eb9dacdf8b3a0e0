#include "tests/models/kernels/random_cases.hpp"

namespace rookery::kernel_tests {

Tensor Draw::integers_of(const Shape& shape, std::int64_t low, std::int64_t high, DType dtype) {
  Tensor tensor(dtype, shape);
  if (dtype == DType::kI32) {
    for (auto& value : tensor.as<std::int32_t>()) value = static_cast<std::int32_t>(integer(low, high));
  } else {
    for (auto& value : tensor.as<std::int64_t>()) value = integer(low, high);
  }
  return tensor;
}

Tensor Draw::bools(const Shape& shape) {
  Tensor tensor(DType::kBool, shape);
  for (bool& value : tensor.as<bool>()) value = chance(0.5);
  return tensor;
}

std::int64_t Draw::integer(std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
}

bool Draw::chance(double probability) {
  return std::bernoulli_distribution(probability)(random_);
}

std::vector<std::int64_t> Draw::integers(std::size_t count, std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> values(count);
  for (std::int64_t& value : values) value = integer(low, high);
  return values;
}

Shape Draw::shape(int least_rank, int most_rank, std::int64_t most) {
  return Shape(integers(static_cast<std::size_t>(integer(least_rank, most_rank)), 1, most));
}

Shape Draw::broadcast_to(const Shape& whole) {
  std::vector<std::int64_t> dims(whole.dims().begin(), whole.dims().end());
  for (std::int64_t& dim : dims) dim = chance(0.4) ? 1 : dim;
  dims.erase(dims.begin(), dims.begin() + integer(0, std::ssize(dims)));
  return Shape(dims);
}

Tensor Draw::floats(const Shape& shape, float low, float high) {
  return random_tensor(shape, random_, low, high);
}

Tensor Draw::quarters(const Shape& shape) {
  Tensor tensor(DType::kF32, shape);
  for (float& value : tensor.as<float>()) value = static_cast<float>(integer(-16, 16)) / 4;
  return tensor;
}

Tensor Draw::labels(const Shape& shape, std::int64_t classes) {
  Tensor labels(DType::kI64, shape);
  for (std::int64_t& label : labels.as<std::int64_t>()) label = integer(0, classes - 1);
  return labels;
}

}  // namespace rookery::kernel_tests
