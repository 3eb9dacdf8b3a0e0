// Optimizers: settings, and the arithmetic on a stage's arena. Definitions are PyTorch's where it has
// them; Lion is that of arXiv 2302.06675, LAMB that of arXiv 1904.00962.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/kernels/arithmetic.hpp"

namespace rookery {

struct OptimizerSettings {
  std::string name = "adam";    // of a row of optimizer_kinds()
  double learning_rate = 1e-3;  // the schedule's base; a step's own rate is given to update()
  double beta1 = 0.9;           // adam, adamw, lamb, lion
  double beta2 = 0.999;         // as beta1
  double epsilon = 1e-8;        // adam, adamw, lamb, rmsprop
  double momentum = 0;          // sgd, rmsprop
  double dampening = 0;         // sgd
  bool nesterov = false;        // sgd
  double smoothing = 0.99;      // rmsprop: alpha
  bool centered = false;        // rmsprop
  double weight_decay = 0;      // adam, sgd, rmsprop: added to gradients; adamw, lamb, lion: apart from them
  bool operator==(const OptimizerSettings&) const = default;
};

// Where a parameter lies in its arena, in floats. What follows, up to the next one, is padding.
struct ParameterExtent {
  std::size_t offset = 0;
  std::size_t count = 0;
};

// All parameters of a stage: arrays of the same layout, aligned and padded to kAlignment, in memory of the
// device that the stage runs on.
struct ParameterArena {
  std::span<float> parameters;
  std::span<const float> gradients;
  std::span<const std::span<float>> state;  // one array for each of state_names()
  std::span<const ParameterExtent> extents;
  KeptChange kept = {};  // of all of them
};

// The place of a parameter in its arena, and with it the cut, makes no difference.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Names of the state tensors it keeps for every parameter, e.g. {"exp_avg", "exp_avg_sq"}; zero before
  // the first update.
  virtual std::vector<std::string> state_names() const = 0;
  // Update number `step` (from 0), on the device of this arithmetic.
  virtual void update(std::int64_t step, double learning_rate, const Arithmetic& arithmetic,
                      const ParameterArena& arena) const = 0;
};

// The fields of OptimizerSettings that an optimizer may have use of. A weight decay is an option of its own
// for each thing that it may do.
enum class OptimizerOption : std::uint8_t {
  kLearningRate,
  kBetas,
  kEpsilon,
  kMomentum,
  kDampening,
  kNesterov,
  kSmoothing,
  kCentered,
  kDecayInGradients,  // weight_decay times the weights is added to the gradients
  kDecayOfWeights,    // a step takes weight_decay times the rate off the weights
  kDecayInDirection,  // weight_decay times the weights is added to the direction of the step
};

struct OptimizerKind {
  std::string name;
  std::string help;  // for the documentation; empty where it is PyTorch's
  std::vector<OptimizerOption> options;
  OptimizerSettings defaults;  // as its definition has them, with the name
  std::unique_ptr<Optimizer> (*make)(const OptimizerSettings&);
};

// All optimizers, a row each.
const std::vector<OptimizerKind>& optimizer_kinds();
// ConfigError for an unknown name.
OptimizerSettings optimizer_defaults(const std::string& name);
// ConfigError for an unknown name, or for settings that contradict each other.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings);

}  // namespace rookery
