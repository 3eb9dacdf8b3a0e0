#include "models/io/onnx/import/graph/known.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/op_attributes.hpp"
#include "models/graph/op_definition.hpp"
#include "models/io/onnx/format/constants.hpp"
#include "models/io/onnx/format/format.hpp"
#include "models/kernels/kernel.hpp"
#include "models/tensor/same.hpp"

namespace rookery {
namespace {

// Of all that a file makes its reader compute: a few bytes must not become hours or gigabytes.
constexpr std::uint64_t kMaxFoldedBytes = 1ULL << 30;

Tensor map_floats(const Tensor& x, float (*function)(float)) {
  Tensor y(x.type());
  std::ranges::transform(x.as<float>(), y.as<float>().begin(), function);
  return y;
}

float sign(float x) {
  return static_cast<float>((x > 0) - (x < 0));
}

// ONNX rounds halves to even, as the default rounding mode does.
const std::map<std::string, float (*)(float)>& functions_of_floats() {
  static const std::map<std::string, float (*)(float)> table{
      {"Ceil", [](float x) { return std::ceil(x); }},
      {"Floor", [](float x) { return std::floor(x); }},
      {"Round", [](float x) { return std::nearbyint(x); }},
      {"Sign", sign},
  };
  return table;
}

// Python's, the sign of the divisor; of equal shapes or a single divisor.
Tensor modulo(const Tensor& a, const Tensor& b) {
  const auto divisors = b.as<std::int64_t>();
  if (b.type() != a.type() && divisors.size() != 1) throw DataError("needs operands of one shape");
  Tensor y(a.type());
  for (std::size_t i = 0; i < y.as<std::int64_t>().size(); ++i) {
    const std::int64_t by = divisors[divisors.size() == 1 ? 0 : i];
    if (by == 0) throw DataError(fmt::format("element {} of the divisor is 0", i));
    const std::int64_t rest = by == -1 ? 0 : a.as<std::int64_t>()[i] % by;
    y.as<std::int64_t>()[i] = rest != 0 && (rest < 0) != (by < 0) ? rest + by : rest;
  }
  return y;
}

std::int64_t whole(const Tensor* tensor) {
  if (tensor == nullptr || tensor->type().dtype != DType::kI64 || tensor->shape().elements() != 1)
    throw DataError("needs whole numbers (i64)");
  return tensor->as<std::int64_t>()[0];
}

Tensor product_of_all(const Tensor& x, bool keeps_dims) {
  Tensor y(DType::kI64, Shape(std::vector<std::int64_t>(keeps_dims ? x.shape().rank() : 0, 1)));
  std::uint64_t product = 1;
  for (const std::int64_t factor : x.as<std::int64_t>()) product *= static_cast<std::uint64_t>(factor);
  y.as<std::int64_t>()[0] = static_cast<std::int64_t>(product);
  return y;
}

}  // namespace

Known::Known(AtProbes<std::shared_ptr<const Tensor>> at) : at_(std::move(at)) {
  const bool same =
      std::ranges::all_of(at_, [&](const auto& tensor) { return is_same(*tensor, *at_.front()); });
  if (same) at_.fill(at_.front());
}

void Folder::take(const TensorType& type) {
  if (type.bytes() > kMaxOnnxBytes)
    throw DataError(
        fmt::format("makes a constant {} of more than {} bytes", type.to_string(), kMaxOnnxBytes));
  taken_ += type.bytes() + kAlignment;
  if (taken_ > kMaxFoldedBytes)
    throw DataError(fmt::format("the file's constants take more than {} bytes", kMaxFoldedBytes));
}

std::vector<Tensor> Folder::run(const Op& op, std::span<const Tensor* const> inputs, std::size_t outputs) {
  std::vector<TensorType> input_types;
  std::vector<ConstTensorView> input_views;
  for (const Tensor* input : inputs) {
    input_types.push_back(input == nullptr ? TensorType{} : input->type());
    input_views.push_back(input == nullptr ? ConstTensorView{} : input->view());
  }
  std::vector<TensorType> types = infer_types(op, input_types);
  if (types.size() < outputs) throw DataError(fmt::format("has {} outputs, not {}", outputs, types.size()));
  types.resize(outputs);
  std::vector<Tensor> made;
  std::vector<TensorView> views;
  for (const TensorType& type : types) {
    take(type);
    made.emplace_back(type);
  }
  for (Tensor& tensor : made) views.push_back(tensor.view());
  if (is_view(op)) {
    std::ranges::copy(input_views[0].bytes(), views[0].bytes().begin());
    return made;
  }
  const auto kernel = make_kernel("eigen", {.op = op, .inputs = input_types, .outputs = types});
  if (kernel->scratch_bytes() > kMaxOnnxBytes) throw DataError("needs too much memory for a constant");
  AlignedBuffer scratch(kernel->scratch_bytes());
  kernel->run(input_views, views, scratch.data(), {});
  return made;
}

bool Folder::has_own(const std::string& type) {
  return type == "Range" || type == "Mod" || type == "ReduceProd" || functions_of_floats().contains(type);
}

std::optional<Tensor> Folder::run_own(const std::string& type, std::span<const Tensor* const> inputs,
                                      const Integer& attribute) {
  const Tensor* first = inputs.empty() ? nullptr : inputs[0];
  if (type == "Range") {
    if (inputs.size() != 3) throw DataError("needs 3 inputs");
    Tensor range = range_constant({whole(inputs[0]), whole(inputs[1]), whole(inputs[2])});
    take(range.type());
    return range;
  }
  if (first == nullptr) return std::nullopt;
  if (const auto function = functions_of_floats().find(type); function != functions_of_floats().end()) {
    take(first->type());
    if (first->type().dtype != DType::kF32) throw DataError("needs an input of f32");
    return map_floats(*first, function->second);
  }
  if (type == "Mod" && inputs.size() == 2 && inputs[1] != nullptr) {
    if (first->type().dtype != DType::kI64 || inputs[1]->type().dtype != DType::kI64 ||
        attribute("fmod", 0) != 0)
      throw DataError("needs whole numbers (i64), and fmod 0");
    take(first->type());
    return modulo(*first, *inputs[1]);
  }
  if (type == "ReduceProd" && inputs.size() == 1 && first->type().dtype == DType::kI64)
    return product_of_all(*first, attribute("keepdims", 1) != 0);
  return std::nullopt;
}

}  // namespace rookery
