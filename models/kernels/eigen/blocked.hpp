// Ops on images in blocks of channels by the plain kernels.
#pragma once

#include <memory>

#include "models/kernels/kernel.hpp"

namespace rookery::eigen {

// An op in blocked layout by the kernel that `make` has for the plain one; nullptr where it has none.
std::unique_ptr<Kernel> make_by_plain(const KernelRequest& request,
                                      std::unique_ptr<Kernel> (*make)(const KernelRequest&));

}  // namespace rookery::eigen
