// The optimizers' arithmetic against PyTorch's definitions in double, on every instruction set.
#include <gtest/gtest.h>

#include <cmath>

#include "models/kernels/simd/loops/loops.hpp"
#include "tests/models/kernels/op_case.hpp"

namespace rookery::kernel_tests {
namespace {

constexpr std::size_t kCount = 48;

struct State {
  Tensor p, g, m, v;
};

State random_state(Random& random) {
  const Shape shape{static_cast<std::int64_t>(kCount)};
  return {random_tensor(shape, random), random_tensor(shape, random), random_tensor(shape, random),
          random_tensor(shape, random, 0, 1)};
}

void for_each_isa(const std::function<void()>& body) {
  for (const char* const* isa = simd::loop_names(); *isa != nullptr; ++isa) {
    ASSERT_TRUE(simd::select_loops(*isa));
    SCOPED_TRACE(*isa);
    body();
  }
  simd::select_loops(simd::loop_names()[0]);
}

TEST(OptimizerLoops, Adam) {
  for_each_isa([] {
    Random random(31);
    State s = random_state(random);
    const double correction1 = 1 - std::pow(0.9, 3);
    const double correction2 = 1 - std::pow(0.999, 3);
    std::vector<double> p, m, v;
    for (std::size_t i = 0; i < kCount; ++i) {
      const double before = s.p.as<float>()[i];
      const double g = s.g.as<float>()[i] + 0.01 * before;
      m.push_back(0.9 * s.m.as<float>()[i] + 0.1 * g);
      v.push_back(0.999 * s.v.as<float>()[i] + 0.001 * g * g);
      p.push_back(before - 0.05 / correction1 * m[i] / (std::sqrt(v[i]) / std::sqrt(correction2) + 1e-8));
    }
    simd::adam_update({.step_size = static_cast<float>(0.05 / correction1),
                       .beta1 = 0.9F,
                       .one_minus_beta1 = static_cast<float>(1 - 0.9),
                       .beta2 = 0.999F,
                       .one_minus_beta2 = static_cast<float>(1 - 0.999),
                       .sqrt_correction2 = static_cast<float>(std::sqrt(correction2)),
                       .epsilon = 1e-8F,
                       .weight_decay = 0.01F},
                      s.p.as<float>().data(), s.g.as<float>().data(), s.m.as<float>().data(),
                      s.v.as<float>().data(), kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      EXPECT_NEAR(s.p.as<float>()[i], p[i], 1e-6);
      EXPECT_NEAR(s.m.as<float>()[i], m[i], 1e-6);
      EXPECT_NEAR(s.v.as<float>()[i], v[i], 1e-6);
    }
  });
}

TEST(OptimizerLoops, SgdWithAndWithoutMomentum) {
  for_each_isa([] {
    for (const bool momentum : {true, false}) {
      Random random(32);
      State s = random_state(random);
      std::vector<double> p, velocity;
      for (std::size_t i = 0; i < kCount; ++i) {
        const double before = s.p.as<float>()[i];
        const double g = s.g.as<float>()[i] + 0.1 * before;
        velocity.push_back(momentum ? 0.8 * s.m.as<float>()[i] + g : g);
        p.push_back(before - 0.5 * velocity[i]);
      }
      simd::sgd_update({.learning_rate = 0.5F, .momentum = 0.8F, .weight_decay = 0.1F},
                       s.p.as<float>().data(), s.g.as<float>().data(),
                       momentum ? s.m.as<float>().data() : nullptr, kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        EXPECT_NEAR(s.p.as<float>()[i], p[i], 1e-6);
        if (!momentum) continue;
        EXPECT_NEAR(s.m.as<float>()[i], velocity[i], 1e-6);
      }
    }
  });
}

TEST(OptimizerLoops, ThePlaceOfAnElementMakesNoDifference) {
  for_each_isa([] {
    std::vector<float> results;
    for (std::size_t place = 0; place < kCount; ++place) {
      Tensor p(DType::kF32, {48}), g(DType::kF32, {48}), m(DType::kF32, {48}), v(DType::kF32, {48});
      p.as<float>()[place] = 0.3F;
      g.as<float>()[place] = 0.7F;
      m.as<float>()[place] = -0.1F;
      v.as<float>()[place] = 0.01F;
      simd::adam_update({1e-3F, 0.9F, 0.1F, 0.999F, 0.001F, 0.3F, 1e-8F, 0.1F}, p.as<float>().data(),
                        g.as<float>().data(), m.as<float>().data(), v.as<float>().data(), kCount);
      results.push_back(p.as<float>()[place]);
    }
    EXPECT_EQ(std::ranges::count(results, results[0]), static_cast<std::ptrdiff_t>(kCount));
  });
}

TEST(OptimizerLoops, UnpaddedArraysAreRefused) {
  float none[1]{};
  EXPECT_THROW(simd::sgd_update({}, none, none, nullptr, 1), BugError);
}

}  // namespace
}  // namespace rookery::kernel_tests
