// Random cases of every operator, for comparisons over many shapes and attributes.
//
// To add an operator, give it an entry in random_ops() (random_cases.cpp): a function that draws a
// legal case, its attributes and inputs, from a Draw. Its values are checked by torch_test.cpp, which
// needs the operator in OPERATORS of tests/models/io/torch_runtime.py. Draw small shapes with odd sizes,
// every attribute sometimes absent, and numbers at which a function has no derivative often enough
// (quarters(): exact in every precision, so that both sides see the same side of a kink).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/models/kernels/op_case.hpp"

namespace rookery::kernel_tests {

using Attributes = std::map<std::string, Attribute>;

// Draws from one generator: the same seed gives the same cases.
class Draw {
 public:
  explicit Draw(std::uint32_t seed) : random_(seed) {}

  std::int64_t integer(std::int64_t low, std::int64_t high);  // both included
  bool chance(double probability);
  template <typename T>
  T one_of(std::vector<T> values) {
    return values[integer(0, std::ssize(values) - 1)];
  }
  std::vector<std::int64_t> integers(std::size_t count, std::int64_t low, std::int64_t high);
  Shape shape(int least_rank, int most_rank, std::int64_t most = 6);
  // One that broadcasts to `whole`.
  Shape broadcast_to(const Shape& whole);

  Tensor floats(const Shape& shape, float low = -3, float high = 3);
  // Multiples of 1/4 from -4 to 4.
  Tensor quarters(const Shape& shape);
  Tensor labels(const Shape& shape, std::int64_t classes);
  // Random integers of i64 or i32, both bounds included.
  Tensor integers_of(const Shape& shape, std::int64_t low, std::int64_t high, DType dtype = DType::kI64);
  Tensor bools(const Shape& shape);

 private:
  Random random_;
};

struct RandomCase {
  Attributes attributes;
  std::vector<std::optional<Tensor>> inputs;
  std::set<std::size_t> buffers = {};  // inputs of f32 that have no gradient
  int outputs = 1;
};

// A vector of tensors, which cannot be copied into an initializer list; absent ones are std::nullopt.
template <typename... T>
std::vector<std::optional<Tensor>> inputs_of(T&&... tensors) {
  std::vector<std::optional<Tensor>> inputs;
  (inputs.emplace_back(std::forward<T>(tensors)), ...);
  return inputs;
}

struct RandomOp {
  std::function<RandomCase(Draw&)> draw;
  // The error that is allowed of results and gradients, relative to the largest value of their tensor (or to
  // 0.1).
  double tolerance = 1e-5;
};

// By operator.
const std::map<std::string, RandomOp>& random_ops();
// Those of them in random_layer_cases.cpp and random_tensor_cases.cpp.
const std::map<std::string, RandomOp>& random_layer_ops();
const std::map<std::string, RandomOp>& random_tensor_ops();

// A case in training form: with the outputs that the gradient needs. All its inputs are there.
OpCase random_op_case(const std::string& type, Draw& draw);
// The operators that slide windows.
inline const std::vector<std::string> kWindowOps{"Conv", "ConvTranspose", "MaxPool", "AveragePool",
                                                 "GlobalAveragePool"};

// Operators that have no random cases, and why.
const std::map<std::string, std::string>& without_random_cases();

}  // namespace rookery::kernel_tests
