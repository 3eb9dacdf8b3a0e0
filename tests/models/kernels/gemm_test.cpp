#include <gtest/gtest.h>

#include <algorithm>

#include "tests/models/kernels/cases.hpp"
#include "tests/models/kernels/every_isa.hpp"

namespace rookery::kernel_tests {
namespace {

// Few rows and many are multiplied in different ways: the sums are the same, in the same order.
TEST(Gemm, OfFewRowsHasTheBitsOfThoseRowsAmongMany) {
  Random random(6);
  for (const GemmSpec& spec : {GemmSpec{21, 150, 90}, GemmSpec{50, 147, 131, false, true, false},
                               GemmSpec{64, 300, 400}, GemmSpec{3, 40, 600}}) {
    OpCase few = gemm_case(spec, random);
    GemmSpec larger = spec;
    larger.m = 400;
    OpCase many = gemm_case(larger, random);
    std::ranges::copy(few.inputs[0].as<float>(), many.inputs[0].as<float>().begin());
    for (std::size_t i = 1; i < few.inputs.size(); ++i) many.inputs[i] = few.inputs[i].clone();
    for_each_isa([&] {
      const std::vector<Tensor> rows = run_kernel(*kernel_of("simd", few), few, 0xFF);
      const std::vector<Tensor> all = run_kernel(*kernel_of("simd", many), many, 0xFF);
      const auto expected = all[0].view().bytes().first(rows[0].view().bytes().size());
      EXPECT_TRUE(std::ranges::equal(rows[0].view().bytes(), expected)) << describe(few);
    });
  }
}

}  // namespace
}  // namespace rookery::kernel_tests
