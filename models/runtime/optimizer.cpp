#include "models/runtime/optimizer.hpp"

#include <cmath>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/named_rows.hpp"

namespace rookery {
namespace {

// The corrections of Adam's running means at update `step`: 1 - beta1^t and 1 - beta2^t.
struct BiasCorrections {
  double mean, square;
  BiasCorrections(const OptimizerSettings& settings, std::int64_t step)
      : mean(1 - std::pow(settings.beta1, static_cast<double>(step) + 1)),
        square(1 - std::pow(settings.beta2, static_cast<double>(step) + 1)) {}
};

// torch.optim.Adam (Kingma and Ba, arXiv 1412.6980, with L2 weight decay) and torch.optim.AdamW
// (Loshchilov and Hutter, arXiv 1711.05101).
class Adam : public Optimizer {
 public:
  explicit Adam(const OptimizerSettings& settings)
      : settings_(settings), decouples_decay_(settings.name == "adamw") {}

  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }

  void update(std::int64_t step, double learning_rate, const Arithmetic& arithmetic,
              const ParameterArena& arena) const override {
    const BiasCorrections corrections(settings_, step);
    const double decay = settings_.weight_decay;
    arithmetic.adam_update({.step_size = static_cast<float>(learning_rate / corrections.mean),
                            .beta1 = static_cast<float>(settings_.beta1),
                            .one_minus_beta1 = static_cast<float>(1 - settings_.beta1),
                            .beta2 = static_cast<float>(settings_.beta2),
                            .one_minus_beta2 = static_cast<float>(1 - settings_.beta2),
                            .sqrt_correction2 = static_cast<float>(std::sqrt(corrections.square)),
                            .epsilon = static_cast<float>(settings_.epsilon),
                            .weight_decay = static_cast<float>(decouples_decay_ ? 0 : decay),
                            .kept = static_cast<float>(decouples_decay_ ? 1 - learning_rate * decay : 1)},
                           arena.parameters.data(), arena.gradients.data(), arena.state[0].data(),
                           arena.state[1].data(), arena.kept, arena.parameters.size());
  }

 private:
  OptimizerSettings settings_;
  bool decouples_decay_;
};

// torch.optim.SGD. The first buffer is the gradient, without dampening.
class Sgd : public Optimizer {
 public:
  explicit Sgd(const OptimizerSettings& settings) : settings_(settings) {
    if (settings.nesterov && (settings.momentum == 0 || settings.dampening != 0)) {
      throw ConfigError(fmt::format(
          "optimizer 'sgd': nesterov needs a momentum above 0 and no dampening; they are {} and {}",
          settings.momentum, settings.dampening));
    }
  }

  std::vector<std::string> state_names() const override {
    if (settings_.momentum == 0) return {};
    return {"momentum_buffer"};
  }

  void update(std::int64_t step, double learning_rate, const Arithmetic& arithmetic,
              const ParameterArena& arena) const override {
    arithmetic.sgd_update({.learning_rate = static_cast<float>(learning_rate),
                           .momentum = static_cast<float>(settings_.momentum),
                           .weight_decay = static_cast<float>(settings_.weight_decay),
                           .gradient_share = step == 0 ? 1 : static_cast<float>(1 - settings_.dampening),
                           .nesterov = settings_.nesterov},
                          arena.parameters.data(), arena.gradients.data(),
                          arena.state.empty() ? nullptr : arena.state[0].data(), arena.kept,
                          arena.parameters.size());
  }

 private:
  OptimizerSettings settings_;
};

// torch.optim.RMSprop (Hinton's lectures; centered as in Graves, arXiv 1308.0850).
class RmsProp : public Optimizer {
 public:
  explicit RmsProp(const OptimizerSettings& settings) : settings_(settings) {}

  std::vector<std::string> state_names() const override {
    std::vector<std::string> names{"square_avg"};
    if (settings_.centered) names.emplace_back("grad_avg");
    if (settings_.momentum > 0) names.emplace_back("momentum_buffer");
    return names;
  }

  void update(std::int64_t, double learning_rate, const Arithmetic& arithmetic,
              const ParameterArena& arena) const override {
    std::size_t next = 1;
    float* const mean = settings_.centered ? arena.state[next++].data() : nullptr;
    float* const buffer = settings_.momentum > 0 ? arena.state[next].data() : nullptr;
    arithmetic.rmsprop_update({.learning_rate = static_cast<float>(learning_rate),
                               .alpha = static_cast<float>(settings_.smoothing),
                               .one_minus_alpha = static_cast<float>(1 - settings_.smoothing),
                               .epsilon = static_cast<float>(settings_.epsilon),
                               .momentum = static_cast<float>(settings_.momentum),
                               .weight_decay = static_cast<float>(settings_.weight_decay)},
                              arena.parameters.data(), arena.gradients.data(), arena.state[0].data(), mean,
                              buffer, arena.kept, arena.parameters.size());
  }

 private:
  OptimizerSettings settings_;
};

// Chen et al., Symbolic Discovery of Optimization Algorithms, arXiv 2302.06675.
class Lion : public Optimizer {
 public:
  explicit Lion(const OptimizerSettings& settings) : settings_(settings) {}

  std::vector<std::string> state_names() const override { return {"exp_avg"}; }

  void update(std::int64_t, double learning_rate, const Arithmetic& arithmetic,
              const ParameterArena& arena) const override {
    arithmetic.lion_update({.learning_rate = static_cast<float>(learning_rate),
                            .beta1 = static_cast<float>(settings_.beta1),
                            .one_minus_beta1 = static_cast<float>(1 - settings_.beta1),
                            .beta2 = static_cast<float>(settings_.beta2),
                            .one_minus_beta2 = static_cast<float>(1 - settings_.beta2),
                            .kept = static_cast<float>(1 - learning_rate * settings_.weight_decay)},
                           arena.parameters.data(), arena.gradients.data(), arena.state[0].data(), arena.kept,
                           arena.parameters.size());
  }

 private:
  OptimizerSettings settings_;
};

// You et al., Large Batch Optimization for Deep Learning, arXiv 1904.00962, algorithm 2, with the
// identity for phi.
class Lamb : public Optimizer {
 public:
  explicit Lamb(const OptimizerSettings& settings) : settings_(settings) {}

  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }

  void update(std::int64_t step, double learning_rate, const Arithmetic& arithmetic,
              const ParameterArena& arena) const override {
    const BiasCorrections corrections(settings_, step);
    const LambCoefficients coefficients{.beta1 = static_cast<float>(settings_.beta1),
                                        .one_minus_beta1 = static_cast<float>(1 - settings_.beta1),
                                        .beta2 = static_cast<float>(settings_.beta2),
                                        .one_minus_beta2 = static_cast<float>(1 - settings_.beta2),
                                        .mean_scale = static_cast<float>(1 / corrections.mean),
                                        .root_scale = static_cast<float>(1 / std::sqrt(corrections.square)),
                                        .epsilon = static_cast<float>(settings_.epsilon),
                                        .weight_decay = static_cast<float>(settings_.weight_decay)};
    for (const auto& [offset, count] : arena.extents) {
      ROOKERY_CHECK(offset + count <= arena.parameters.size(), "{} floats at {} of {}", count, offset,
                    arena.parameters.size());
      KeptChange kept = arena.kept;
      if (kept.to != nullptr) kept.to += offset;
      arithmetic.lamb_update(coefficients, learning_rate, arena.parameters.data() + offset,
                             arena.gradients.data() + offset, arena.state[0].data() + offset,
                             arena.state[1].data() + offset, kept, count);
    }
  }

 private:
  OptimizerSettings settings_;
};

template <typename Made>
std::unique_ptr<Optimizer> make(const OptimizerSettings& settings) {
  return std::make_unique<Made>(settings);
}

const OptimizerKind& kind_of(const std::string& name) {
  const OptimizerKind* kind = find_row(optimizer_kinds(), name);
  if (kind != nullptr) return *kind;
  throw ConfigError(fmt::format("optimizer '{}' is unknown; there are: {}", name,
                                fmt::join(names_of(optimizer_kinds()), ", ")));
}

}  // namespace

const std::vector<OptimizerKind>& optimizer_kinds() {
  using enum OptimizerOption;
  static const std::vector<OptimizerKind> kinds{
      {"adam", "", {kLearningRate, kBetas, kEpsilon, kDecayInGradients}, {.name = "adam"}, make<Adam>},
      {"adamw",
       "",
       {kLearningRate, kBetas, kEpsilon, kDecayOfWeights},
       {.name = "adamw", .weight_decay = 0.01},
       make<Adam>},
      {"lamb",
       "arXiv 1904.00962",
       {kLearningRate, kBetas, kEpsilon, kDecayInDirection},
       {.name = "lamb", .epsilon = 1e-6, .weight_decay = 0.01},
       make<Lamb>},
      {"lion",
       "arXiv 2302.06675",
       {kLearningRate, kBetas, kDecayOfWeights},
       {.name = "lion", .learning_rate = 1e-4, .beta2 = 0.99},
       make<Lion>},
      {"rmsprop",
       "",
       {kLearningRate, kSmoothing, kEpsilon, kMomentum, kCentered, kDecayInGradients},
       {.name = "rmsprop", .learning_rate = 0.01},
       make<RmsProp>},
      {"sgd",
       "",
       {kLearningRate, kMomentum, kDampening, kNesterov, kDecayInGradients},
       {.name = "sgd"},
       make<Sgd>},
  };
  return kinds;
}

OptimizerSettings optimizer_defaults(const std::string& name) {
  return kind_of(name).defaults;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings) {
  return kind_of(settings.name).make(settings);
}

}  // namespace rookery
