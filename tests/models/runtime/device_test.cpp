// What the runtime may do with memory of a device: these tests are of the device that is not the host.
#include <gtest/gtest.h>

#include "models/base/check.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/runtime/executable.hpp"
#include "tests/models/runtime/random_batch.hpp"
#include "tests/models/runtime/trained_models.hpp"
#include "tests/support/guarded_device.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kDeviceBatch = 3;

CompileOptions options_for(const Graph& graph) {
  return {.training_sizes = {kDeviceBatch},
          .inference_sizes = {kDeviceBatch},
          .kernels = choose_kernels(graph, kDeviceBatch),
          .optimizer = {},
          .processor = &test::guarded_processor()};
}

TEST(DeviceDeathTest, ItsMemoryIsNotTheHosts) {
  AlignedBuffer buffer(64, test::guarded_device());
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(buffer.data()) = 1, "");
}

TEST(DeviceTensors, AreReadThroughCopiesAlone) {
  AlignedBuffer buffer(64, test::guarded_device());
  const TensorView there{{DType::kF32, {3}}, buffer.data(), &test::guarded_device()};
  EXPECT_THROW(there.as<float>(), BugError);
  EXPECT_THROW(there.bytes(), BugError);
  const int in = test::guarded_device().copies_in();
  const int out = test::guarded_device().copies_out();
  write_from_host(there, [](TensorView host) { host.as<float>()[1] = 7; });
  const HostTensor here(there);
  EXPECT_EQ(here.view().as<float>()[1], 7);
  EXPECT_EQ(here.view().as<float>()[2], 0) << "a new buffer holds zeros";
  EXPECT_EQ(test::guarded_device().copies_in(), in + 1);
  EXPECT_EQ(test::guarded_device().copies_out(), out + 1);
}

TEST(DeviceTensors, OfTheHostAreNotCopied) {
  Tensor tensor(DType::kF32, {3});
  EXPECT_EQ(HostTensor(tensor.view()).view().data, tensor.view().data);
  write_from_host(tensor.view(), [&](TensorView host) { EXPECT_EQ(host.data, tensor.view().data); });
}

TEST(Device, StepsCopyNothingToTheHost) {
  const Graph graph = branching_model();
  Executable executable(whole(graph), options_for(graph), initial_state(graph, 1));
  for (std::int64_t step = 0; step < 3; ++step) {
    const MicroBatch micro_batch{.step = step, .size = kDeviceBatch};
    for (std::size_t i = 0; i < executable.stage().inputs.size(); ++i) {
      const TensorView input = executable.input(i, micro_batch);
      copy(Tensor(input.type).view(), input);
    }
    const int in = test::guarded_device().copies_in();
    const int out = test::guarded_device().copies_out();
    executable.forward(micro_batch);
    executable.backward_inputs(micro_batch);
    executable.backward_weights(micro_batch);
    executable.squared_gradients();
    executable.scale_gradients(0.5F);
    executable.update(step, 1e-3);
    EXPECT_EQ(test::guarded_device().copies_in(), in);
    EXPECT_EQ(test::guarded_device().copies_out(), out);
  }
}

// Describes kernels, and has no device to prepare them on or to allocate from.
class AbsentProcessor final : public Processor {
 public:
  Device* device() const override { throw BugError("there is no device"); }
  const Arithmetic& arithmetic() const override { throw BugError("there is no device"); }
  std::unique_ptr<Kernel> describe_kernel(const std::string& choice,
                                          const KernelRequest& request) const override {
    return std::make_unique<Described>(host_processor().describe_kernel(choice, request));
  }

 private:
  class Described final : public Kernel {
   public:
    explicit Described(std::unique_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}
    void prepare() override { throw BugError("a kernel is prepared"); }
    std::size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
    std::size_t library_bytes() const override { return kernel_->library_bytes(); }
    void run(std::span<const ConstTensorView>, std::span<const TensorView>, std::byte*,
             const StepContext&) override {
      throw BugError("a kernel runs");
    }

   private:
    std::unique_ptr<Kernel> kernel_;
  };
};

TEST(Device, MemoryIsKnownWithoutIt) {
  const AbsentProcessor absent;
  for (const Graph& graph : {branching_model(), image_model(), recurrent_model(), tied_model_with_loss()}) {
    CompileOptions options = options_for(graph);
    options.slots = 2;
    const MemoryUse there = Executable(whole(graph), options, initial_state(graph, 1)).memory();
    options.processor = &absent;
    const MemoryUse planned = memory_use(whole(graph), options);
    EXPECT_EQ(planned.total(), there.total());
    EXPECT_EQ(planned.workspace, there.workspace);
    EXPECT_EQ(planned.program, there.program);
    EXPECT_EQ(memory_by_slots(whole(graph), options).back().total(), planned.total());
    EXPECT_THROW(Executable(whole(graph), options, initial_state(graph, 1)), BugError);
  }
}

}  // namespace
}  // namespace rookery
