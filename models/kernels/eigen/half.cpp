#include "models/kernels/half.hpp"

#include <Eigen/Core>

namespace rookery {

std::uint16_t to_float16(float number) {
  return Eigen::half_impl::float_to_half_rtne(number).x;
}
float from_float16(std::uint16_t bits) {
  return Eigen::half_impl::half_to_float(Eigen::half_impl::raw_uint16_to_half(bits));
}

std::uint16_t to_bfloat16(float number) {
  return Eigen::bfloat16(number).value;
}
float from_bfloat16(std::uint16_t bits) {
  return Eigen::bfloat16_impl::bfloat16_to_float(Eigen::bfloat16_impl::raw_uint16_to_bfloat16(bits));
}

}  // namespace rookery
