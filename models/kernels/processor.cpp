#include "models/kernels/processor.hpp"

namespace rookery {
namespace {

class HostProcessor final : public Processor {
 public:
  Device* device() const override { return nullptr; }
  const Arithmetic& arithmetic() const override { return host_arithmetic(); }
  std::unique_ptr<Kernel> describe_kernel(const std::string& choice,
                                          const KernelRequest& request) const override {
    return rookery::describe_kernel(choice, request);
  }
};

}  // namespace

const Processor& host_processor() {
  static const HostProcessor processor;
  return processor;
}

}  // namespace rookery
