// Optimizers against their definitions in double. Those that PyTorch has are also replayed from its
// traces, in tests/trainer/optimizer_traces_test.cpp.
#include "models/runtime/optimizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "models/base/error.hpp"
#include "models/base/named_rows.hpp"
#include "models/base/rng.hpp"
#include "tests/models/kernels/every_isa.hpp"

namespace rookery {
namespace {

std::vector<float> randoms(std::size_t count, std::uint64_t stream) {
  CounterRng rng(rng_key(3, "optimizer"), stream);
  std::vector<float> values(count);
  for (float& x : values) x = 2 * rng.next_float() - 1;
  return values;
}

// One padded arena with parameters of the given sizes, in this order.
class Parameters {
 public:
  Parameters(const OptimizerSettings& settings, const std::vector<std::size_t>& counts)
      : optimizer_(make_optimizer(settings)) {
    std::size_t size = 0;
    for (const std::size_t count : counts) {
      extents_.push_back({.offset = size, .count = count});
      size += (count + 15) / 16 * 16;
    }
    values_.resize(size);
    gradients_.resize(size);
    state_.resize(optimizer_->state_names().size(), std::vector<float>(size));
  }

  std::span<float> values(std::size_t i) { return of(values_, i); }
  std::span<float> gradients(std::size_t i) { return of(gradients_, i); }

  const std::vector<float>& all() const { return values_; }

  void update(std::int64_t step, double learning_rate, const KeptChange& kept = {}) {
    const std::vector<std::span<float>> state(state_.begin(), state_.end());
    optimizer_->update(
        step, learning_rate, host_arithmetic(),
        {.parameters = values_, .gradients = gradients_, .state = state, .extents = extents_, .kept = kept});
  }

 private:
  std::span<float> of(std::vector<float>& array, std::size_t i) {
    return std::span(array).subspan(extents_[i].offset, extents_[i].count);
  }

  std::unique_ptr<Optimizer> optimizer_;
  std::vector<ParameterExtent> extents_;
  std::vector<float> values_, gradients_;
  std::vector<std::vector<float>> state_;
};

// The same step in double, over one parameter: p and what the definition keeps.
struct Exact {
  std::vector<double> p, m, v;
};
using Definition = std::function<void(Exact&, const std::vector<float>& gradient, double t, double rate)>;

void expect_follows(const OptimizerSettings& settings, const Definition& definition) {
  const std::vector<std::size_t> counts{37, 1, 5000};
  Parameters parameters(settings, counts);
  std::vector<Exact> exact;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::vector<float> start = randoms(counts[i], i);
    std::ranges::copy(start, parameters.values(i).begin());
    exact.push_back(
        {{start.begin(), start.end()}, std::vector<double>(counts[i]), std::vector<double>(counts[i])});
  }
  for (std::int64_t step = 0; step < 20; ++step) {
    const double rate = settings.learning_rate * (1 - 0.02 * static_cast<double>(step));
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::vector<float> gradient = randoms(counts[i], 10 + 3 * static_cast<std::uint64_t>(step) + i);
      std::ranges::copy(gradient, parameters.gradients(i).begin());
      definition(exact[i], gradient, static_cast<double>(step) + 1, rate);
    }
    parameters.update(step, rate);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      for (std::size_t j = 0; j < counts[i]; ++j) {
        ASSERT_NEAR(parameters.values(i)[j], exact[i].p[j], 2e-5)
            << "step " << step << " parameter " << i << " element " << j;
      }
    }
  }
}

TEST(Adam, FollowsItsDefinition) {
  const OptimizerSettings settings{.name = "adam", .learning_rate = 0.01, .weight_decay = 0.1};
  EXPECT_EQ(make_optimizer(settings)->state_names(), (std::vector<std::string>{"exp_avg", "exp_avg_sq"}));
  expect_follows(settings, [](Exact& x, const std::vector<float>& g, double t, double rate) {
    for (std::size_t i = 0; i < g.size(); ++i) {
      const double gradient = g[i] + 0.1 * x.p[i];
      x.m[i] = 0.9 * x.m[i] + 0.1 * gradient;
      x.v[i] = 0.999 * x.v[i] + 0.001 * gradient * gradient;
      x.p[i] -=
          rate * (x.m[i] / (1 - std::pow(0.9, t))) / (std::sqrt(x.v[i] / (1 - std::pow(0.999, t))) + 1e-8);
    }
  });
}

TEST(Lion, FollowsItsDefinition) {
  OptimizerSettings settings = optimizer_defaults("lion");
  settings.learning_rate = 0.01;
  settings.weight_decay = 0.1;
  EXPECT_EQ(make_optimizer(settings)->state_names(), std::vector<std::string>{"exp_avg"});
  expect_follows(settings, [](Exact& x, const std::vector<float>& g, double, double rate) {
    for (std::size_t i = 0; i < g.size(); ++i) {
      const double mean = 0.9 * x.m[i] + 0.1 * g[i];
      const double sign = mean > 0 ? 1 : -1;
      x.p[i] -= rate * (sign + 0.1 * x.p[i]);
      x.m[i] = 0.99 * x.m[i] + 0.01 * g[i];
    }
  });
}

TEST(Lion, AZeroMeanIsNoStep) {
  Parameters parameters(optimizer_defaults("lion"), {3});
  parameters.values(0)[1] = 0.5F;
  parameters.gradients(0)[2] = 7;
  parameters.update(0, 0.25);
  EXPECT_EQ(parameters.values(0)[0], 0);
  EXPECT_EQ(parameters.values(0)[1], 0.5F);
  EXPECT_EQ(parameters.values(0)[2], -0.25F);
}

double norm(const std::vector<double>& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
}

TEST(Lamb, FollowsItsDefinition) {
  OptimizerSettings settings = optimizer_defaults("lamb");
  settings.learning_rate = 0.01;
  settings.weight_decay = 0.1;
  EXPECT_EQ(make_optimizer(settings)->state_names(), (std::vector<std::string>{"exp_avg", "exp_avg_sq"}));
  expect_follows(settings, [](Exact& x, const std::vector<float>& g, double t, double rate) {
    std::vector<double> direction(g.size());
    for (std::size_t i = 0; i < g.size(); ++i) {
      x.m[i] = 0.9 * x.m[i] + 0.1 * g[i];
      x.v[i] = 0.999 * x.v[i] + 0.001 * double{g[i]} * double{g[i]};
      direction[i] =
          (x.m[i] / (1 - std::pow(0.9, t))) / (std::sqrt(x.v[i] / (1 - std::pow(0.999, t))) + 1e-6) +
          0.1 * x.p[i];
    }
    const double ratio = norm(x.p) / norm(direction);
    for (std::size_t i = 0; i < g.size(); ++i) x.p[i] -= rate * ratio * direction[i];
  });
}

TEST(Lamb, WithoutANormTheRatioIsOne) {
  OptimizerSettings settings = optimizer_defaults("lamb");
  Parameters parameters(settings, {2, 2});
  parameters.gradients(0)[0] = 3;  // of zero weights: Adam's first step
  parameters.values(1)[0] = 0.5F;  // without gradient: decay alone, scaled to the weights' norm
  parameters.update(0, 0.25);
  EXPECT_NEAR(parameters.values(0)[0], -0.25, 1e-6);
  EXPECT_EQ(parameters.values(0)[1], 0);
  EXPECT_NEAR(parameters.values(1)[0], 0.5 - 0.25 * 0.5, 1e-6);
}

TEST(Sgd, MomentumStartsAsInPyTorch) {
  Parameters parameters({.name = "sgd", .momentum = 0.9, .dampening = 0.5}, {1});
  parameters.values(0)[0] = 1;
  parameters.gradients(0)[0] = 1;
  parameters.update(0, 0.5);
  EXPECT_FLOAT_EQ(parameters.values(0)[0], 0.5F) << "the first gradient is not dampened";
  parameters.update(1, 0.5);
  EXPECT_FLOAT_EQ(parameters.values(0)[0], 0.5F - 0.5F * 1.4F);
}

TEST(Sgd, WithoutMomentumThereIsNoState) {
  EXPECT_TRUE(make_optimizer({.name = "sgd"})->state_names().empty());
  Parameters parameters({.name = "sgd"}, {16});
  parameters.values(0)[15] = 1;
  parameters.gradients(0)[15] = 1;
  parameters.update(0, 0.5);
  EXPECT_FLOAT_EQ(parameters.values(0)[15], 0.5F);
}

TEST(RmsProp, KeepsWhatItsFormNeeds) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(make_optimizer({.name = "rmsprop"})->state_names(), Names{"square_avg"});
  EXPECT_EQ(make_optimizer({.name = "rmsprop", .momentum = 0.5})->state_names(),
            (Names{"square_avg", "momentum_buffer"}));
  EXPECT_EQ(make_optimizer({.name = "rmsprop", .momentum = 0.5, .centered = true})->state_names(),
            (Names{"square_avg", "grad_avg", "momentum_buffer"}));
}

TEST(RmsProp, AConstantGradientHasNoNegativeVariance) {
  Parameters parameters({.name = "rmsprop", .smoothing = 0.5, .centered = true}, {16});
  for (std::size_t i = 0; i < 16; ++i) parameters.gradients(0)[i] = 0.1F * static_cast<float>(i + 1);
  for (std::int64_t step = 0; step < 200; ++step) parameters.update(step, 1e-12);
  for (const float value : parameters.values(0)) EXPECT_TRUE(std::isfinite(value)) << value;
}

TEST(Optimizer, ThePlaceOfAParameterMakesNoDifference) {
  for (const std::string& name : names_of(optimizer_kinds())) {
    OptimizerSettings settings = optimizer_defaults(name);
    settings.weight_decay = 0.1;
    std::vector<std::vector<float>> results;
    for (const std::vector<std::size_t>& before : {std::vector<std::size_t>{}, {1}, {5000, 17}}) {
      std::vector<std::size_t> counts = before;
      counts.push_back(4099);
      counts.push_back(3);
      Parameters parameters(settings, counts);
      std::ranges::copy(randoms(4099, 0), parameters.values(before.size()).begin());
      for (std::int64_t step = 0; step < 3; ++step) {
        for (std::size_t i = 0; i < counts.size(); ++i) {
          const auto stream = static_cast<std::uint64_t>(i == before.size() ? step + 1 : 100);
          std::ranges::copy(randoms(counts[i], stream), parameters.gradients(i).begin());
        }
        parameters.update(step, 0.01);
      }
      const std::span<float> result = parameters.values(before.size());
      results.emplace_back(result.begin(), result.end());
    }
    EXPECT_EQ(results[0], results[1]) << name;
    EXPECT_EQ(results[0], results[2]) << name;
  }
}

// A prediction is what scale_and_add() makes of the change.
void expect_keeps_what_it_changes() {
  for (const std::string& name : names_of(optimizer_kinds())) {
    SCOPED_TRACE(name);
    const auto updated = [&](const KeptChange& kept) {
      Parameters parameters(optimizer_defaults(name), {17, 20'000, 32});
      for (std::size_t i = 0; i < 3; ++i) {
        std::ranges::copy(randoms(parameters.values(i).size(), i), parameters.values(i).begin());
        std::ranges::copy(randoms(parameters.values(i).size(), 3 + i), parameters.gradients(i).begin());
      }
      const std::vector<float> before = parameters.all();
      parameters.update(0, 0.01, kept);
      return std::pair(before, parameters.all());
    };
    const auto [before, after] = updated({});
    std::vector<float> change(after.size()), prediction(after.size());
    EXPECT_EQ(updated({.to = change.data()}).second, after);
    EXPECT_EQ(updated({.to = prediction.data(), .factor = 2.6F, .predicts = true}).second, after);
    for (std::size_t i = 0; i < after.size(); ++i) ASSERT_EQ(change[i], after[i] - before[i]) << i;
    host_arithmetic().scale_and_add(change.data(), 2.6F, after.data(), change.size());
    EXPECT_EQ(prediction, change);
  }
}

TEST(Optimizer, KeepsWhatItChanges) {
  kernel_tests::for_each_isa(expect_keeps_what_it_changes);
}

TEST(Optimizer, WhatIsUnknownOrContradictsIsRefused) {
  EXPECT_THROW(make_optimizer({.name = "adamm"}), ConfigError);
  EXPECT_THROW(make_optimizer({.name = "sgd", .nesterov = true}), ConfigError);
  EXPECT_THROW(make_optimizer({.name = "sgd", .momentum = 0.9, .dampening = 0.1, .nesterov = true}),
               ConfigError);
}

}  // namespace
}  // namespace rookery
