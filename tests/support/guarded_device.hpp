// A second device, that tests run on beside the host: host memory at addresses of its own, where reading or
// writing ends the process. Its copies and its kernels alone know where the memory really is.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/base/check.hpp"
#include "models/kernels/processor.hpp"

namespace rookery::test {

class GuardedDevice final : public Device {
 public:
  GuardedDevice()
      : begin_(static_cast<std::byte*>(
            ::mmap(nullptr, 2 * kSpan, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    ROOKERY_CHECK(begin_ != MAP_FAILED, "no addresses for the guarded device");
  }
  ~GuardedDevice() override { ::munmap(begin_, 2 * kSpan); }
  GuardedDevice(const GuardedDevice&) = delete;
  GuardedDevice& operator=(const GuardedDevice&) = delete;

  const char* name() const override { return "guarded"; }

  // No address is given twice, so that use after release ends the process, too.
  std::byte* allocate(std::size_t bytes) override {
    const std::size_t at = next_.fetch_add(pages(bytes));
    if (at + pages(bytes) > kSpan) throw std::bad_alloc();
    map(begin_ + at, pages(bytes), PROT_READ | PROT_WRITE);
    return begin_ + at;
  }
  void release(std::byte* memory, std::size_t bytes) noexcept override {
    map(memory, pages(bytes), PROT_NONE);
  }

  void fill(std::byte* memory, std::byte value, std::size_t bytes) override {
    std::memset(real(memory), std::to_integer<int>(value), bytes);
  }
  void copy_from_host(const std::byte* host, std::byte* memory, std::size_t bytes) override {
    ++copies_in_;
    std::memcpy(real(memory), host, bytes);
  }
  void copy_to_host(const std::byte* memory, std::byte* host, std::size_t bytes) override {
    ++copies_out_;
    std::memcpy(host, real(memory), bytes);
  }
  void copy(const std::byte* from, std::byte* to, std::size_t bytes) override {
    std::memcpy(real(to), real(from), bytes);
  }

  int copies_in() const { return copies_in_; }
  int copies_out() const { return copies_out_; }

  // Where memory of this device really is; nullptr stays.
  template <typename T>
  T* real(T* memory) const {
    if (memory == nullptr) return nullptr;
    using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    auto* const at = reinterpret_cast<Byte*>(memory);
    ROOKERY_CHECK(at >= begin_ && at < begin_ + kSpan, "memory of another device on the guarded one");
    return reinterpret_cast<T*>(at + kSpan);
  }

 private:
  // Addresses for all that a test program allocates, one after the other; they take no memory.
  static constexpr std::size_t kSpan = std::size_t{1} << 37;

  static std::size_t pages(std::size_t bytes) {
    static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return (bytes + page - 1) / page * page;
  }
  static void map(std::byte* memory, std::size_t bytes, int access) {
    const void* made =
        ::mmap(memory + kSpan, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (made == MAP_FAILED) throw std::bad_alloc();
  }

  std::byte* const begin_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<int> copies_in_ = 0;
  std::atomic<int> copies_out_ = 0;
};

inline GuardedDevice& guarded_device() {
  static GuardedDevice device;
  return device;
}

// Runs a host's kernel on memory of the guarded device.
class GuardedKernel final : public Kernel {
 public:
  explicit GuardedKernel(std::unique_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}

  void prepare() override { kernel_->prepare(); }
  std::size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  std::size_t library_bytes() const override { return kernel_->library_bytes(); }
  void run(std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs, std::byte* scratch,
           const StepContext& context) override {
    inputs_.clear();
    outputs_.clear();
    for (const ConstTensorView& input : inputs) inputs_.push_back(real(input));
    for (const TensorView& output : outputs) outputs_.push_back(real(output));
    // Without scratch memory the address is one behind an arena, perhaps.
    kernel_->run(inputs_, outputs_, scratch_bytes() == 0 ? nullptr : guarded_device().real(scratch), context);
  }

 private:
  template <typename View>
  static View real(const View& view) {
    ROOKERY_CHECK(view.data == nullptr || view.device == &guarded_device(),
                  "a kernel's argument is elsewhere");
    return {view.type, guarded_device().real(view.data)};
  }

  std::unique_ptr<Kernel> kernel_;
  std::vector<ConstTensorView> inputs_;
  std::vector<TensorView> outputs_;
};

class GuardedArithmetic final : public Arithmetic {
 public:
  void adam_update(const AdamCoefficients& c, float* p, const float* g, float* m, float* v,
                   const KeptChange& kept, std::size_t count) const override {
    host_arithmetic().adam_update(c, real(p), real(g), real(m), real(v), real(kept), count);
  }
  void sgd_update(const SgdCoefficients& c, float* p, const float* g, float* buffer, const KeptChange& kept,
                  std::size_t count) const override {
    host_arithmetic().sgd_update(c, real(p), real(g), real(buffer), real(kept), count);
  }
  void rmsprop_update(const RmspropCoefficients& c, float* p, const float* g, float* square, float* mean,
                      float* buffer, const KeptChange& kept, std::size_t count) const override {
    host_arithmetic().rmsprop_update(c, real(p), real(g), real(square), real(mean), real(buffer), real(kept),
                                     count);
  }
  void lion_update(const LionCoefficients& c, float* p, const float* g, float* m, const KeptChange& kept,
                   std::size_t count) const override {
    host_arithmetic().lion_update(c, real(p), real(g), real(m), real(kept), count);
  }
  void lamb_update(const LambCoefficients& c, double learning_rate, float* p, const float* g, float* m,
                   float* v, const KeptChange& kept, std::size_t count) const override {
    host_arithmetic().lamb_update(c, learning_rate, real(p), real(g), real(m), real(v), real(kept), count);
  }
  double sum_of_squares(const float* values, std::size_t count) const override {
    return host_arithmetic().sum_of_squares(real(values), count);
  }
  void add(float* total, const float* share, std::size_t count) const override {
    host_arithmetic().add(real(total), real(share), count);
  }
  void scale(float* values, float factor, std::size_t count) const override {
    host_arithmetic().scale(real(values), factor, count);
  }
  void scale_and_add(float* values, float factor, const float* offsets, std::size_t count) const override {
    host_arithmetic().scale_and_add(real(values), factor, real(offsets), count);
  }

 private:
  static KeptChange real(KeptChange kept) {
    kept.to = real(kept.to);
    return kept;
  }
  template <typename T>
  static T* real(T* memory) {
    return guarded_device().real(memory);
  }
};

class GuardedProcessor final : public Processor {
 public:
  Device* device() const override { return &guarded_device(); }
  const Arithmetic& arithmetic() const override { return arithmetic_; }
  std::unique_ptr<Kernel> describe_kernel(const std::string& choice,
                                          const KernelRequest& request) const override {
    return std::make_unique<GuardedKernel>(host_processor().describe_kernel(choice, request));
  }

 private:
  GuardedArithmetic arithmetic_;
};

inline const Processor& guarded_processor() {
  static const GuardedProcessor processor;
  return processor;
}

}  // namespace rookery::test
