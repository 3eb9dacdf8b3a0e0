// Optimizers: settings, and the arithmetic on a stage's arena. Definitions are PyTorch's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace rookery {

struct OptimizerSettings {
  std::string name = "adam";  // "adam", "sgd"
  double learning_rate = 1e-3;
  double beta1 = 0.9;  // adam
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0;  // sgd
  double weight_decay = 0;
  bool operator==(const OptimizerSettings&) const = default;
};

// Elementwise over arenas padded to kAlignment, so that the place of a parameter in its arena, and
// with it the cut, makes no difference.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Names of the state tensors it keeps for every parameter, e.g. {"exp_avg", "exp_avg_sq"}.
  virtual std::vector<std::string> state_names() const = 0;
  // Update number `step` (from 0). `state` has one arena per name, laid out as `parameters`.
  virtual void update(std::int64_t step, std::span<float> parameters, std::span<const float> gradients,
                      std::span<const std::span<float>> state) const = 0;
};

// ConfigError for an unknown name.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings);

}  // namespace rookery
