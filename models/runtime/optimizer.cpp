#include "models/runtime/optimizer.hpp"

#include <fmt/format.h>

#include <cmath>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/kernels/simd/elementwise.hpp"

namespace rookery {
namespace {

// torch.optim.Adam: Kingma and Ba, arXiv 1412.6980, with L2 weight decay.
class Adam : public Optimizer {
 public:
  explicit Adam(const OptimizerSettings& settings) : settings_(settings) {}

  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }

  void update(std::int64_t step, std::span<float> parameters, std::span<const float> gradients,
              std::span<const std::span<float>> state) const override {
    const auto t = static_cast<double>(step + 1);
    const double correction1 = 1 - std::pow(settings_.beta1, t);
    const double correction2 = 1 - std::pow(settings_.beta2, t);
    simd::adam_update({.step_size = static_cast<float>(settings_.learning_rate / correction1),
                       .beta1 = static_cast<float>(settings_.beta1),
                       .one_minus_beta1 = static_cast<float>(1 - settings_.beta1),
                       .beta2 = static_cast<float>(settings_.beta2),
                       .one_minus_beta2 = static_cast<float>(1 - settings_.beta2),
                       .sqrt_correction2 = static_cast<float>(std::sqrt(correction2)),
                       .epsilon = static_cast<float>(settings_.epsilon),
                       .weight_decay = static_cast<float>(settings_.weight_decay)},
                      parameters.data(), gradients.data(), state[0].data(), state[1].data(),
                      parameters.size());
  }

 private:
  OptimizerSettings settings_;
};

// torch.optim.SGD with momentum, without dampening. Momentum starts at zero, which gives PyTorch's
// first step.
class Sgd : public Optimizer {
 public:
  explicit Sgd(const OptimizerSettings& settings) : settings_(settings) {}

  std::vector<std::string> state_names() const override {
    if (settings_.momentum == 0) return {};
    return {"momentum_buffer"};
  }

  void update(std::int64_t, std::span<float> parameters, std::span<const float> gradients,
              std::span<const std::span<float>> state) const override {
    simd::sgd_update({.learning_rate = static_cast<float>(settings_.learning_rate),
                      .momentum = static_cast<float>(settings_.momentum),
                      .weight_decay = static_cast<float>(settings_.weight_decay)},
                     parameters.data(), gradients.data(), state.empty() ? nullptr : state[0].data(),
                     parameters.size());
  }

 private:
  OptimizerSettings settings_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings) {
  if (settings.name == "adam") return std::make_unique<Adam>(settings);
  if (settings.name == "sgd") return std::make_unique<Sgd>(settings);
  throw ConfigError(fmt::format("optimizer '{}' is unknown; there are: adam, sgd", settings.name));
}

}  // namespace rookery
