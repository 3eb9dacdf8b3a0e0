// Replays what PyTorch's optimizers and schedulers did (tests/golden/make_optimizer_traces.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "models/base/error.hpp"
#include "models/base/files/json_file.hpp"
#include "models/base/libraries/json.hpp"
#include "tests/support/repository.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {
namespace {

using Values = std::vector<float>;

// Tensors one after the other, as the trace has them, each padded to 16 floats.
class Arena {
 public:
  explicit Arena(const Json& shapes) {
    for (const Json& shape : shapes) {
      std::size_t count = 1;
      for (const Json& size : shape) count *= size.get<std::size_t>();
      extents_.push_back({.offset = size_, .count = count});
      size_ += (count + 15) / 16 * 16;
    }
  }

  std::size_t size() const { return size_; }
  std::span<const ParameterExtent> extents() const { return extents_; }

  Values padded(const Values& dense) const {
    Values values(size_);
    auto next = dense.begin();
    for (const auto& [offset, count] : extents_) {
      std::copy_n(next, count, values.begin() + static_cast<std::ptrdiff_t>(offset));
      next += static_cast<std::ptrdiff_t>(count);
    }
    return values;
  }

 private:
  std::vector<ParameterExtent> extents_;
  std::size_t size_ = 0;
};

TEST(OptimizerTraces, WeightsAreThoseOfPyTorch) {
  const Json file = read_json(kGolden / "optimizer_traces.json");
  const Arena arena(file.at("shapes"));
  for (const Json& trace : file.at("traces")) {
    SCOPED_TRACE(trace.at("optimizer").dump());
    const OptimizerSettings settings =
        settings_from_json({{"optimizer", trace.at("optimizer")}}, "").optimizer;
    const auto optimizer = make_optimizer(settings);
    std::vector<std::string> names = optimizer->state_names();
    std::ranges::sort(names);
    EXPECT_EQ(names, trace.at("state").get<std::vector<std::string>>());
    std::vector<Values> memory(names.size(), Values(arena.size()));
    const std::vector<std::span<float>> state(memory.begin(), memory.end());
    Values weights = arena.padded(file.at("initial").get<Values>());
    const std::size_t updates = file.at("gradients").size();
    ASSERT_EQ(updates, 30U);
    int compared = 0;
    for (std::size_t update = 0; update < updates; ++update) {
      const Values gradients = arena.padded(file.at("gradients")[update].get<Values>());
      optimizer->update(
          static_cast<std::int64_t>(update),
          settings.learning_rate * file.at("factors")[update].get<double>(), host_arithmetic(),
          {.parameters = weights, .gradients = gradients, .state = state, .extents = arena.extents()});
      const auto expected = trace.at("weights").find(std::to_string(update + 1));
      if (expected == trace.at("weights").end()) continue;
      const Values theirs = arena.padded(expected->get<Values>());
      for (std::size_t i = 0; i < weights.size(); ++i) {
        ASSERT_NEAR(weights[i], theirs[i], 1e-5 * std::max(1.0F, std::abs(theirs[i])))
            << "after " << update + 1 << " updates, element " << i;
      }
      ++compared;
    }
    EXPECT_EQ(compared, 4);
  }
}

TEST(LearningRateTraces, RatesAreThoseOfPyTorch) {
  const Json file = read_json(kGolden / "learning_rate_traces.json");
  const auto rate = file.at("rate").get<double>();
  const auto steps_per_epoch = file.at("steps_per_epoch").get<std::int64_t>();
  const auto epochs = file.at("epochs").get<std::int64_t>();
  for (const Json& trace : file.at("traces")) {
    SCOPED_TRACE(trace.at("schedule").dump());
    const LearningRateSchedule schedule =
        settings_from_json({{"learning_rate_schedule", trace.at("schedule")}}, "").learning_rate_schedule;
    const auto rates = trace.at("rates").get<std::vector<double>>();
    ASSERT_EQ(std::ssize(rates), steps_per_epoch * epochs);
    for (std::size_t step = 0; step < rates.size(); ++step) {
      EXPECT_NEAR(learning_rate(rate, schedule, static_cast<std::int64_t>(step), steps_per_epoch, epochs),
                  rates[step], 1e-6 * rates[step])
          << "step " << step;
    }
  }
}

TEST(LearningRateTraces, AreThereForEverySchedule) {
  std::set<std::string> traced{"plateau"};  // which is no function of the step: plateau_traces.json
  const Json document = read_json(kGolden / "learning_rate_traces.json");
  for (const Json& trace : document.at("traces"))
    traced.insert(trace.at("schedule").at("name").get<std::string>());
  for (const std::string& name : learning_rate_schedule_names()) EXPECT_TRUE(traced.contains(name)) << name;
}

TEST(LearningRate, TheShortestRunsHaveFiniteRates) {
  for (const std::string& name : learning_rate_schedule_names()) {
    for (const std::int64_t steps : {1, 2, 3, 10}) {
      for (const double pct_start : {0.0, 0.1, 0.3, 0.5, 1.0}) {
        for (const std::int64_t warmup : {0, 1, 3, 100}) {
          LearningRateSchedule schedule{.name = name};
          schedule.pct_start = pct_start;
          schedule.warmup = warmup;
          for (std::int64_t step = 0; step < steps; ++step) {
            const double rate = learning_rate(0.5, schedule, step, steps, 1);
            EXPECT_TRUE(rate >= 0 && rate <= 0.5 * (1 + 1e-12))
                << name << " step " << step << " of " << steps << ": " << rate;
          }
        }
      }
    }
  }
  EXPECT_THROW(learning_rate(0.5, {.name = "cosinus"}, 0, 1, 1), ConfigError);
}

}  // namespace
}  // namespace rookery
