// Shared by the back ends: the one interface that kernel.cpp knows them by, the tables of their kernels, and
// kernels written as a lambda over raw pointers. Internal to this module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "models/kernels/kernel.hpp"

namespace rookery {

// The kernels that a back end has for one type of op.
struct KernelRow {
  // A kernel that is not prepared; nullptr where it does not serve the request.
  std::unique_ptr<Kernel> (*make)(const KernelRequest& request);
  // Is it the right one for this op of an inference graph? A rule on operator and shapes alone; absent:
  // wherever make() serves the request.
  bool (*prefers)(const KernelRequest& request) = nullptr;
  // Does it apply the op's activation (models/graph/op_attributes.hpp) itself?
  bool fuses = false;
};

// The kernels of a back end by type of op. Each .cpp file of a back end's folder that has kernels says which
// in a function of its own,
//
//     void add_NAME(KernelTable& table) {
//
// and the build collects these functions (models/kernels/CMakeLists.txt): a kernel is added in its file
// alone.
class KernelTable {
 public:
  // BugError for a second row of the same type.
  void add(const std::string& type, KernelRow row);
  // For ops on images in blocks of channels (models/graph/op_attributes.hpp).
  void add_blocked(const std::string& type, KernelRow row);

  // nullptr where there is none.
  const KernelRow* find(const std::string& type) const;
  const KernelRow* find_blocked(const std::string& type) const;
  // By the row of the op's type; nullptr where there is none or it does not serve the request.
  std::unique_ptr<Kernel> make(const KernelRequest& request) const;

 private:
  std::map<std::string, KernelRow> rows_, blocked_rows_;
};

// Generated: all rows of the files of a folder.
namespace eigen {
const KernelTable& kernels();
}
namespace onednn {
const KernelTable& kernels();
}
namespace simd {
const KernelTable& kernels();
}

struct Backend {
  const char* name;
  std::set<std::string_view> words;  // that it knows in a variant
  // A kernel that is not prepared; nullptr where the back end does not serve the request.
  std::unique_ptr<Kernel> (*make)(const KernelRequest& request);
  // Is it the right one for this op of an inference graph?
  bool (*prefers)(const KernelRequest& request);
  // Do its kernels of this op apply its activation themselves?
  bool (*fuses)(const Op& op);
};

const Backend& eigen_backend();
// nullptr in a program that was built without it.
const Backend* onednn_backend();
const Backend& simd_backend();
// Name and version of the library, on which speed and bits depend.
std::string onednn_version();
// Those of this program, best first.
std::vector<const Backend*> all_backends();

// For the sizes of scratch memory.
inline std::size_t float_bytes(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

// The arguments of Kernel::run(). Pointers are nullptr where an argument is absent.
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
