#include "models/runtime/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "models/base/error.hpp"
#include "models/base/rng.hpp"

namespace rookery {
namespace {

std::vector<float> randoms(std::size_t count, std::uint64_t stream) {
  CounterRng rng(rng_key(3, "optimizer"), stream);
  std::vector<float> values(count);
  for (float& x : values) x = 2 * rng.next_float() - 1;
  return values;
}

// The definition, in double.
TEST(Adam, FollowsItsDefinition) {
  const OptimizerSettings settings{.name = "adam", .learning_rate = 0.01, .weight_decay = 0.1};
  const auto adam = make_optimizer(settings);
  EXPECT_EQ(adam->state_names(), (std::vector<std::string>{"exp_avg", "exp_avg_sq"}));
  constexpr std::size_t kCount = 64;
  std::vector<float> p = randoms(kCount, 0);
  std::vector<float> m(kCount);
  std::vector<float> v(kCount);
  std::vector<double> dp(p.begin(), p.end());
  std::vector<double> dm(kCount);
  std::vector<double> dv(kCount);
  for (std::int64_t step = 0; step < 20; ++step) {
    const std::vector<float> g = randoms(kCount, static_cast<std::uint64_t>(step) + 1);
    const std::vector<std::span<float>> state{m, v};
    adam->update(step, p, g, state);
    for (std::size_t i = 0; i < kCount; ++i) {
      const double gradient = g[i] + 0.1 * dp[i];
      dm[i] = 0.9 * dm[i] + 0.1 * gradient;
      dv[i] = 0.999 * dv[i] + 0.001 * gradient * gradient;
      const double t = static_cast<double>(step) + 1;
      dp[i] -= 0.01 * (dm[i] / (1 - std::pow(0.9, t))) / (std::sqrt(dv[i] / (1 - std::pow(0.999, t))) + 1e-8);
      ASSERT_NEAR(p[i], dp[i], 2e-5) << "step " << step << " element " << i;
    }
  }
}

TEST(Sgd, MomentumStartsAsInPyTorch) {
  const auto sgd = make_optimizer({.name = "sgd", .learning_rate = 0.5, .momentum = 0.9});
  std::vector<float> p(16, 1.0F);
  std::vector<float> buffer(16);
  const std::vector<float> g(16, 1.0F);
  const std::vector<std::span<float>> state{buffer};
  sgd->update(0, p, g, state);
  EXPECT_FLOAT_EQ(p[0], 0.5F);
  sgd->update(1, p, g, state);
  EXPECT_FLOAT_EQ(p[0], 0.5F - 0.5F * 1.9F);
}

TEST(Sgd, WithoutMomentumThereIsNoState) {
  const auto sgd = make_optimizer({.name = "sgd", .learning_rate = 0.5});
  EXPECT_TRUE(sgd->state_names().empty());
  std::vector<float> p(16, 1.0F);
  const std::vector<float> g(16, 1.0F);
  sgd->update(0, p, g, {});
  EXPECT_FLOAT_EQ(p[15], 0.5F);
}

TEST(Optimizer, UnknownNamesAreRefused) {
  EXPECT_THROW(make_optimizer({.name = "adamm"}), ConfigError);
}

}  // namespace
}  // namespace rookery
