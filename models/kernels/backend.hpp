// What the back ends share: the one interface that kernel.cpp knows them by, and kernels written as
// a lambda over raw pointers. Internal to this module.
#pragma once

#include <memory>
#include <set>
#include <utility>

#include "models/kernels/kernel.hpp"

namespace rookery {

struct Backend {
  const char* name;
  std::set<std::string_view> words;  // that it knows in a variant
  // nullptr where the back end does not serve the request.
  std::unique_ptr<Kernel> (*make)(const KernelRequest& request);
  // Is it the right one for this op of an inference graph? A rule on operator and shapes alone.
  bool (*prefers)(const KernelRequest& request);
  // Do its kernels of this operator apply the op's activation (models/graph/op_attributes.hpp) themselves?
  bool (*fuses)(const std::string& type);
};

const Backend& eigen_backend();
// nullptr in a program that was built without it.
const Backend* onednn_backend();
const Backend& simd_backend();
// Where its speed and its bits depend on a library: name and version.
std::string onednn_version();
// Those of this program, best first.
std::vector<const Backend*> all_backends();

// What Kernel::run() gets. Pointers are nullptr where an argument is absent.
struct Arguments {
  std::span<const ConstTensorView> inputs;
  std::span<const TensorView> outputs;
  std::byte* scratch;
  const StepContext& context;

  template <typename T = float>
  const T* in(std::size_t i) const {
    return i < inputs.size() ? reinterpret_cast<const T*>(inputs[i].data) : nullptr;
  }
  template <typename T = float>
  T* out(std::size_t i) const {
    return i < outputs.size() ? reinterpret_cast<T*>(outputs[i].data) : nullptr;
  }
  float* floats() const { return reinterpret_cast<float*>(scratch); }
};

template <typename Body>
class LambdaKernel final : public Kernel {
 public:
  LambdaKernel(std::size_t scratch_bytes, Body body)
      : scratch_bytes_(scratch_bytes), body_(std::move(body)) {}

  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  void run(std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs, std::byte* scratch,
           const StepContext& context) override {
    body_(Arguments{inputs, outputs, scratch, context});
  }

 private:
  std::size_t scratch_bytes_;
  Body body_;
};

// A kernel that runs body(const Arguments&).
template <typename Body>
std::unique_ptr<Kernel> lambda_kernel(Body body, std::size_t scratch_bytes = 0) {
  return std::make_unique<LambdaKernel<Body>>(scratch_bytes, std::move(body));
}

}  // namespace rookery
