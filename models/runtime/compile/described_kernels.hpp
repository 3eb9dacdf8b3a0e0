// A processor to plan for another: it describes each kernel once and remembers what it takes, since a planner
// compiles the same op in hundreds of stages, and most of that time goes to libraries that describe its
// kernel.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "models/kernels/processor.hpp"

namespace rookery {

// May be called by several threads at once. Its kernels say what they need; to run one is a BugError.
class DescribedKernels final : public Processor {
 public:
  // `processor` outlives this.
  explicit DescribedKernels(const Processor& processor) : processor_(processor) {}
  DescribedKernels(const DescribedKernels&) = delete;
  DescribedKernels& operator=(const DescribedKernels&) = delete;

  Device* device() const override { return processor_.device(); }
  const Arithmetic& arithmetic() const override { return processor_.arithmetic(); }
  std::unique_ptr<Kernel> describe_kernel(const std::string& choice,
                                          const KernelRequest& request) const override;

 private:
  struct Needs {
    std::size_t scratch_bytes = 0;
    std::size_t library_bytes = 0;
  };
  class Described;

  const Processor& processor_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Needs> known_;  // by all that a description depends on
};

}  // namespace rookery
