// The optimizers' arithmetic against PyTorch's definitions in double, on every instruction set.
#include <gtest/gtest.h>

#include <cmath>

#include "models/kernels/threads.hpp"
#include "tests/models/kernels/every_isa.hpp"
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
    host_arithmetic().adam_update({.step_size = static_cast<float>(0.05 / correction1),
                                   .beta1 = 0.9F,
                                   .one_minus_beta1 = static_cast<float>(1 - 0.9),
                                   .beta2 = 0.999F,
                                   .one_minus_beta2 = static_cast<float>(1 - 0.999),
                                   .sqrt_correction2 = static_cast<float>(std::sqrt(correction2)),
                                   .epsilon = 1e-8F,
                                   .weight_decay = 0.01F},
                                  s.p.as<float>().data(), s.g.as<float>().data(), s.m.as<float>().data(),
                                  s.v.as<float>().data(), {}, kCount);
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
      host_arithmetic().sgd_update({.learning_rate = 0.5F, .momentum = 0.8F, .weight_decay = 0.1F},
                                   s.p.as<float>().data(), s.g.as<float>().data(),
                                   momentum ? s.m.as<float>().data() : nullptr, {}, kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        EXPECT_NEAR(s.p.as<float>()[i], p[i], 1e-6);
        if (!momentum) continue;
        EXPECT_NEAR(s.m.as<float>()[i], velocity[i], 1e-6);
      }
    }
  });
}

TEST(OptimizerLoops, RmspropInAllItsForms) {
  for_each_isa([] {
    for (const bool centered : {true, false}) {
      for (const bool momentum : {true, false}) {
        Random random(33);
        State s = random_state(random);
        Tensor buffer = random_tensor({static_cast<std::int64_t>(kCount)}, random);
        std::vector<double> p, velocity;
        for (std::size_t i = 0; i < kCount; ++i) {
          const double before = s.p.as<float>()[i];
          const double g = s.g.as<float>()[i] + 0.1 * before;
          const double square = 0.5 * (s.v.as<float>()[i] + 2) + 0.5 * g * g;
          const double mean = centered ? 0.5 * s.m.as<float>()[i] + 0.5 * g : 0;
          const double direction = g / (std::sqrt(square - mean * mean) + 1e-3);
          velocity.push_back(direction + (momentum ? 0.8 * buffer.as<float>()[i] : 0));
          p.push_back(before - 0.05 * velocity[i]);
        }
        for (float& square : s.v.as<float>()) square += 2;  // variances well above 0
        host_arithmetic().rmsprop_update({.learning_rate = 0.05F,
                                          .alpha = 0.5F,
                                          .one_minus_alpha = 0.5F,
                                          .epsilon = 1e-3F,
                                          .momentum = 0.8F,
                                          .weight_decay = 0.1F},
                                         s.p.as<float>().data(), s.g.as<float>().data(),
                                         s.v.as<float>().data(), centered ? s.m.as<float>().data() : nullptr,
                                         momentum ? buffer.as<float>().data() : nullptr, {}, kCount);
        for (std::size_t i = 0; i < kCount; ++i) EXPECT_NEAR(s.p.as<float>()[i], p[i], 1e-6);
      }
    }
  });
}

TEST(OptimizerLoops, Lion) {
  for_each_isa([] {
    Random random(34);
    State s = random_state(random);
    s.g.as<float>()[7] = s.m.as<float>()[7] = 0;
    std::vector<double> p, m;
    for (std::size_t i = 0; i < kCount; ++i) {
      const double mean = 0.75 * s.m.as<float>()[i] + 0.25 * s.g.as<float>()[i];
      const double sign = mean == 0 ? 0 : std::copysign(1, mean);
      p.push_back(0.9 * s.p.as<float>()[i] - 0.05 * sign);
      m.push_back(0.5 * s.m.as<float>()[i] + 0.5 * s.g.as<float>()[i]);
    }
    host_arithmetic().lion_update({.learning_rate = 0.05F,
                                   .beta1 = 0.75F,
                                   .one_minus_beta1 = 0.25F,
                                   .beta2 = 0.5F,
                                   .one_minus_beta2 = 0.5F,
                                   .kept = 0.9F},
                                  s.p.as<float>().data(), s.g.as<float>().data(), s.m.as<float>().data(), {},
                                  kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      EXPECT_NEAR(s.p.as<float>()[i], p[i], 1e-6);
      EXPECT_NEAR(s.m.as<float>()[i], m[i], 1e-6);
    }
  });
}

// Parameters of any size; what lies behind them is neither read into the norms nor written.
TEST(OptimizerLoops, LambKeepsToItsParameter) {
  for_each_isa([] {
    for (const std::size_t count : {1U, 15U, 16U, 33U, 4096U, 9001U}) {
      Random random(35);
      const Shape shape{static_cast<std::int64_t>(count) + 16};
      Tensor p = random_tensor(shape, random), g = random_tensor(shape, random);
      Tensor m = random_tensor(shape, random), v = random_tensor(shape, random, 0, 1);
      const Tensor before = p.clone();
      std::vector<double> direction(count);
      double weights = 0;
      double directions = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const double gradient = g.as<float>()[i];
        const double mean = 0.5 * m.as<float>()[i] + 0.5 * gradient;
        const double square = 0.75 * v.as<float>()[i] + 0.25 * gradient * gradient;
        direction[i] = 2 * mean / (1.5 * std::sqrt(square) + 0.01) + 0.1 * before.as<float>()[i];
        weights += std::pow(before.as<float>()[i], 2);
        directions += std::pow(direction[i], 2);
      }
      host_arithmetic().lamb_update({.beta1 = 0.5F,
                                     .one_minus_beta1 = 0.5F,
                                     .beta2 = 0.75F,
                                     .one_minus_beta2 = 0.25F,
                                     .mean_scale = 2,
                                     .root_scale = 1.5F,
                                     .epsilon = 0.01F,
                                     .weight_decay = 0.1F},
                                    0.05, p.as<float>().data(), g.as<float>().data(), m.as<float>().data(),
                                    v.as<float>().data(), {}, count);
      for (std::size_t i = 0; i < count + 16; ++i) {
        const double step = i < count ? 0.05 * std::sqrt(weights / directions) * direction[i] : 0;
        ASSERT_NEAR(p.as<float>()[i], before.as<float>()[i] - step, i < count ? 2e-6 : 0)
            << count << " element " << i;
      }
    }
  });
}

TEST(OptimizerLoops, LambHasTheSameBitsOnAnyNumberOfThreads) {
  const std::int64_t least = least_shared_work();
  set_least_shared_work(1000);
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 3}) {
    const KernelThreads of_kernels(threads);
    Random random(36);
    Tensor p = random_tensor({100'003}, random), g = random_tensor({100'003}, random);
    Tensor m = random_tensor({100'003}, random), v = random_tensor({100'003}, random, 0, 1);
    host_arithmetic().lamb_update({.beta1 = 0.5F,
                                   .one_minus_beta1 = 0.5F,
                                   .beta2 = 0.75F,
                                   .one_minus_beta2 = 0.25F,
                                   .mean_scale = 2,
                                   .root_scale = 1.5F,
                                   .epsilon = 0.01F,
                                   .weight_decay = 0.1F},
                                  0.05, p.as<float>().data(), g.as<float>().data(), m.as<float>().data(),
                                  v.as<float>().data(), {}, 100'003);
    results.emplace_back(p.as<float>().begin(), p.as<float>().end());
  }
  set_least_shared_work(least);
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
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
      host_arithmetic().adam_update({1e-3F, 0.9F, 0.1F, 0.999F, 0.001F, 0.3F, 1e-8F, 0.1F},
                                    p.as<float>().data(), g.as<float>().data(), m.as<float>().data(),
                                    v.as<float>().data(), {}, kCount);
      results.push_back(p.as<float>()[place]);
    }
    EXPECT_EQ(std::ranges::count(results, results[0]), static_cast<std::ptrdiff_t>(kCount));
  });
}

TEST(OptimizerLoops, UnpaddedArraysAreRefused) {
  float none[1]{};
  EXPECT_THROW(host_arithmetic().sgd_update({}, none, none, nullptr, {}, 1), BugError);
}

}  // namespace
}  // namespace rookery::kernel_tests
