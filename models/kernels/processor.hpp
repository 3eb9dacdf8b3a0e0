// A processor computes on a device: its kernels, and its arithmetic on whole arrays. The runtime reaches
// numbers through this alone.
#pragma once

#include <memory>
#include <string>

#include "models/kernels/arithmetic.hpp"
#include "models/kernels/kernel.hpp"
#include "models/tensor/device.hpp"

namespace rookery {

// Describing needs no device: a planner without one can plan for it. Outlives all that is made with it.
class Processor {
 public:
  virtual ~Processor() = default;
  // nullptr: the host. Views of its memory carry it.
  virtual Device* device() const = 0;
  virtual const Arithmetic& arithmetic() const = 0;
  // As the function of this name in kernel.hpp. The kernel gets views of this device.
  virtual std::unique_ptr<Kernel> describe_kernel(const std::string& choice,
                                                  const KernelRequest& request) const = 0;
};

const Processor& host_processor();

}  // namespace rookery
