#include "models/kernels/backend.hpp"

namespace rookery {

const Backend& simd_backend() {
  static const Backend backend{
      .name = "simd",
      .make = [](const KernelRequest&) -> std::unique_ptr<Kernel> { return nullptr; },
      .prefers = [](const KernelRequest&) { return false; }};
  return backend;
}

}  // namespace rookery
