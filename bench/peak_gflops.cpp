// What a core can do: the best rate of a large matrix product of oneDNN on one thread, in GFLOP/s of
// float32.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "models/kernels/kernel.hpp"

int main() {
  using namespace rookery;
  constexpr std::int64_t kSize = 2048;
  constexpr int kRounds = 6;
  const TensorType type{DType::kF32, {kSize, kSize}};
  const Op op{.name = "product", .type = "Gemm", .inputs = {0, 1}, .outputs = {2}, .attributes = {}};
  const std::vector<TensorType> types(2, type);
  const auto kernel = make_kernel_of("onednn", {.op = op, .inputs = types, .outputs = {&type, 1}});
  if (!kernel) {
    fmt::print(stderr, "peak_gflops: built without oneDNN\n");
    return 1;
  }
  Tensor a(type), b(type), c(type);
  std::ranges::fill(a.as<float>(), 0.5F);
  std::ranges::fill(b.as<float>(), 0.25F);
  const std::vector<ConstTensorView> inputs{a.view(), b.view()};
  const std::vector<TensorView> outputs{c.view()};
  AlignedBuffer scratch(kernel->scratch_bytes());
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    kernel->run(inputs, outputs, scratch.data(), {});
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    best = std::max(best, 2.0 * kSize * kSize * kSize / taken.count() * 1e-9);
  }
  fmt::print("{:.1f}\n", best);
  return 0;
}
