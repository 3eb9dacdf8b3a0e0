// One op with its data, run on any back end: what the kernel tests compare.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "models/graph/op_definition.hpp"
#include "models/kernels/kernel.hpp"
#include "models/kernels/threads.hpp"

namespace rookery::kernel_tests {

using Random = std::mt19937;

inline Tensor random_tensor(const Shape& shape, Random& random, float low = -1, float high = 1) {
  Tensor tensor(DType::kF32, shape);
  std::uniform_real_distribution<float> uniform(low, high);
  for (float& value : tensor.as<float>()) value = uniform(random);
  return tensor;
}

inline Tensor random_labels(std::int64_t rows, std::int64_t classes, Random& random) {
  Tensor labels(DType::kI64, {rows});
  for (auto& label : labels.as<std::int64_t>()) {
    label = std::uniform_int_distribution<std::int64_t>(0, classes - 1)(random);
  }
  return labels;
}

using SharedMemory = std::vector<std::pair<int, int>>;  // (output, input)

struct OpCase {
  Op op;
  std::vector<Tensor> inputs;  // rank 0 f32 without a name in op.inputs where absent
  std::vector<TensorType> outputs;
  SharedMemory in_place = {};  // always
  StepContext context = {};
  std::uint64_t seed = 7;

  std::vector<TensorType> input_types() const {
    std::vector<TensorType> types;
    for (const Tensor& tensor : inputs) types.push_back(tensor.type());
    return types;
  }
};

inline OpCase make_case(const std::string& type, std::map<std::string, Attribute> attributes,
                        std::vector<Tensor> inputs, std::vector<TensorType> outputs) {
  Op op{
      .name = "the_" + type, .type = type, .inputs = {}, .outputs = {}, .attributes = std::move(attributes)};
  op.inputs.resize(inputs.size());
  std::iota(op.inputs.begin(), op.inputs.end(), 0);
  op.outputs.resize(outputs.size());
  std::iota(op.outputs.begin(), op.outputs.end(), static_cast<int>(inputs.size()));
  return {.op = std::move(op), .inputs = std::move(inputs), .outputs = std::move(outputs)};
}

inline void poison(std::span<std::byte> bytes, int pattern) {
  if (!bytes.empty()) std::memset(bytes.data(), pattern, bytes.size());
}

// Runs the kernel once, with every byte that it must write set to `pattern` before; outputs of
// `overwriting` are written over inputs.
inline std::vector<Tensor> run_kernel(Kernel& kernel, const OpCase& test, int pattern,
                                      const SharedMemory& overwriting = {}) {
  std::vector<Tensor> results;
  std::vector<ConstTensorView> inputs;
  std::vector<TensorView> outputs;
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    const bool absent = test.op.inputs[i] == kNoValue;
    inputs.push_back(absent ? ConstTensorView{} : test.inputs[i].view());
  }
  for (const TensorType& type : test.outputs) {
    results.emplace_back(type);
    poison(results.back().view().bytes(), pattern);
  }
  for (std::size_t i = 0; i < test.outputs.size(); ++i) {
    outputs.push_back(test.op.outputs[i] == kNoValue ? TensorView{} : results[i].view());
  }
  SharedMemory shared = test.in_place;
  shared.insert(shared.end(), overwriting.begin(), overwriting.end());
  for (const auto& [output, input] : shared) {
    Tensor& result = results[output];
    copy(test.inputs[input].view(), result.view());
    inputs[input] = result.view();
  }
  AlignedBuffer scratch(kernel.scratch_bytes());
  poison({scratch.data(), scratch.size()}, pattern);
  kernel.run(inputs, outputs, scratch.data(), test.context);
  return results;
}

inline std::unique_ptr<Kernel> kernel_of(const std::string& backend, const OpCase& test) {
  const auto types = test.input_types();
  return make_kernel_of(backend,
                        {.op = test.op, .inputs = types, .outputs = test.outputs, .seed = test.seed});
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::ranges::equal(a.view().bytes(), b.view().bytes());
}

// Where the op's definition says that its output may be written over an input, it must make no difference.
inline void check_in_place(Kernel& kernel, const OpCase& test, const std::vector<Tensor>& expected) {
  if (test.outputs.empty() || test.op.outputs[0] == kNoValue) return;
  for (const std::size_t input : op_definition(test.op.type).in_place) {
    if (input >= test.inputs.size() || test.op.inputs[input] == kNoValue) continue;
    if (test.inputs[input].type() != test.outputs[0]) continue;
    const auto results = run_kernel(kernel, test, 0xFF, {{0, static_cast<int>(input)}});
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (test.op.outputs[i] == kNoValue) continue;
      EXPECT_TRUE(same_bits(results[i], expected[i]))
          << "output " << i << " of " << test.op.type << " over input " << input;
    }
  }
}

#ifdef ROOKERY_SANITIZED
constexpr std::array kThreadCounts{3};
#else
constexpr std::array kThreadCounts{2, 3, 5, 8};
#endif

// The number of threads makes no difference, however small the pieces are that they share.
inline void check_threads(const std::string& backend, const OpCase& test,
                          const std::vector<Tensor>& expected) {
  const std::int64_t least_work = least_shared_work();
  set_least_shared_work(1);
  for (const int threads : kThreadCounts) {
    set_kernel_threads(threads);
    const auto results = run_kernel(*kernel_of(backend, test), test, 0xFF);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (test.op.outputs[i] == kNoValue) continue;
      EXPECT_TRUE(same_bits(results[i], expected[i])) << "output " << i << " of " << test.op.type << " on "
                                                      << backend << " with " << threads << " threads";
    }
  }
  set_kernel_threads(1);
  set_least_shared_work(least_work);
}

// nullopt where the back end does not serve the op. Runs it in place, and on several threads, too.
inline std::optional<std::vector<Tensor>> run_on(const std::string& backend, const OpCase& test) {
  const auto kernel = kernel_of(backend, test);
  if (!kernel) return std::nullopt;
  auto results = run_kernel(*kernel, test, 0xFF);
  check_in_place(*kernel, test, results);
  check_threads(backend, test, results);
  return results;
}

// Largest difference of two tensors relative to the largest value of the first; NaN counts as infinite.
inline double difference(const Tensor& expected, const Tensor& actual) {
  if (expected.type().dtype != DType::kF32) {
    return same_bits(expected, actual) ? 0 : std::numeric_limits<double>::infinity();
  }
  double scale = 1e-6;
  double worst = 0;
  const auto a = expected.as<float>();
  const auto b = actual.as<float>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    scale = std::max(scale, std::abs(static_cast<double>(a[i])));
    const double gap = std::abs(static_cast<double>(a[i]) - b[i]);
    worst = gap <= std::numeric_limits<double>::max() ? std::max(worst, gap)
                                                      : std::numeric_limits<double>::infinity();
  }
  return worst / scale;
}

inline std::string describe(const OpCase& test) {
  std::string text = test.op.type + "(";
  for (const auto& type : test.input_types()) text += type.to_string() + " ";
  text += ") -> ";
  for (const auto& type : test.outputs) text += type.to_string() + " ";
  for (const auto& [key, value] : test.op.attributes) {
    text += key + "=";
    if (const auto* number = std::get_if<std::int64_t>(&value)) text += std::to_string(*number);
    if (const auto* number = std::get_if<float>(&value)) text += std::to_string(*number);
    if (const auto* word = std::get_if<std::string>(&value)) text += *word;
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
      for (const auto number : *list) text += std::to_string(number) + ",";
    }
    text += " ";
  }
  return text;
}

}  // namespace rookery::kernel_tests
