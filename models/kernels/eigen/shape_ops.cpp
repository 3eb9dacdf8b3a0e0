// What moves elements and computes none. Elements are moved as bytes, whatever their type.
#include <cstring>

#include "models/kernels/backend.hpp"
#include "models/kernels/eigen/families.hpp"

namespace rookery::eigen {
namespace {

std::unique_ptr<Kernel> make_copy(const KernelRequest& request) {
  return lambda_kernel([bytes = request.outputs[0].bytes()](const Arguments& args) {
    if (bytes > 0) std::memcpy(args.out<std::byte>(0), args.in<std::byte>(0), bytes);
  });
}

}  // namespace

void add_shape(Makers& makers) {
  makers.emplace("Copy", make_copy);
}

}  // namespace rookery::eigen
