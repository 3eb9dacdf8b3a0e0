// Images in blocks of channels, by way of plain ones.
#include <algorithm>

#include "models/graph/op_attributes.hpp"
#include "models/kernels/backend.hpp"

namespace rookery::eigen {
namespace {

// Copies elements of `size` bytes from one layout to the other.
void convert(const Shape& blocked, std::size_t size, bool to_blocked, const std::byte* from, std::byte* to) {
  const std::int64_t plane = blocked[2] * blocked[3];
  std::size_t in_blocks = 0;
  for (std::int64_t block = 0; block < blocked[0] * blocked[1]; ++block) {
    for (std::int64_t place = 0; place < plane; ++place) {
      for (std::int64_t c = 0; c < kChannelBlock; ++c, in_blocks += size) {
        const std::size_t in_plain =
            static_cast<std::size_t>((block * kChannelBlock + c) * plane + place) * size;
        std::copy_n(from + (to_blocked ? in_plain : in_blocks), size,
                    to + (to_blocked ? in_blocks : in_plain));
      }
    }
  }
}

// An argument of the op, and where its plain form lies in scratch memory if it is blocked.
struct Argument {
  TensorType type, plain;
  std::size_t offset = 0;

  bool is_blocked() const { return type.shape.rank() == 5; }
  std::size_t size() const { return type.bytes() / static_cast<std::size_t>(type.shape.elements()); }
};

class ByPlain final : public Kernel {
 public:
  explicit ByPlain(const KernelRequest& request) {
    for (const TensorType& type : request.inputs) inputs_.push_back(argument(type));
    for (const TensorType& type : request.outputs) outputs_.push_back(argument(type));
    plain_inputs_.resize(inputs_.size());
    plain_outputs_.resize(outputs_.size());
  }

  bool make_plain(const KernelRequest& request, std::unique_ptr<Kernel> (*make)(const KernelRequest&)) {
    Op op = request.op;
    op.attributes.erase("blocked");
    std::vector<TensorType> inputs, outputs;
    for (const Argument& argument : inputs_) inputs.push_back(argument.plain);
    for (const Argument& argument : outputs_) outputs.push_back(argument.plain);
    plain_ = make({.op = op, .inputs = inputs, .outputs = outputs, .seed = request.seed});
    return plain_ != nullptr;
  }

  void prepare() override { plain_->prepare(); }
  std::size_t scratch_bytes() const override { return bytes_ + plain_->scratch_bytes(); }

  void run(std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs, std::byte* scratch,
           const StepContext& context) override {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Argument& argument = inputs_[i];
      plain_inputs_[i] = inputs[i];
      if (!argument.is_blocked() || inputs[i].data == nullptr) continue;
      convert(argument.type.shape, argument.size(), false, inputs[i].data, scratch + argument.offset);
      plain_inputs_[i] = {argument.plain, scratch + argument.offset};
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      plain_outputs_[i] = outputs[i];
      if (outputs_[i].is_blocked() && outputs[i].data != nullptr)
        plain_outputs_[i] = {outputs_[i].plain, scratch + outputs_[i].offset};
    }
    plain_->run(plain_inputs_, plain_outputs_, scratch + bytes_, context);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const Argument& argument = outputs_[i];
      if (argument.is_blocked() && outputs[i].data != nullptr)
        convert(argument.type.shape, argument.size(), true, plain_outputs_[i].data, outputs[i].data);
    }
  }

 private:
  Argument argument(const TensorType& type) {
    Argument result{type, type};
    if (!result.is_blocked()) return result;
    result.plain.shape = plain_shape(type.shape);
    result.offset = bytes_;
    bytes_ += align_up(type.bytes());
    return result;
  }

  std::vector<Argument> inputs_, outputs_;
  std::vector<ConstTensorView> plain_inputs_;  // handed on in run()
  std::vector<TensorView> plain_outputs_;
  std::size_t bytes_ = 0;
  std::unique_ptr<Kernel> plain_;
};

std::unique_ptr<Kernel> make_conversion(const KernelRequest& request) {
  const bool to_blocked = request.outputs[0].shape.rank() == 5;
  const Shape blocked = (to_blocked ? request.outputs[0] : request.inputs[0]).shape;
  return lambda_kernel([blocked, to_blocked](const Arguments& args) {
    convert(blocked, sizeof(float), to_blocked, args.in<std::byte>(0), args.out<std::byte>(0));
  });
}

}  // namespace

std::unique_ptr<Kernel> make_by_plain(const KernelRequest& request,
                                      std::unique_ptr<Kernel> (*make)(const KernelRequest&)) {
  auto kernel = std::make_unique<ByPlain>(request);
  if (!kernel->make_plain(request, make)) return nullptr;
  return kernel;
}

void add_blocked(KernelTable& table) {
  table.add("ToBlocked", {make_conversion});
  table.add("FromBlocked", {make_conversion});
}

}  // namespace rookery::eigen
