// An Averager keeps the clusters of a plan one model while a stage trains. The Trainer calls it;
// trainer/averaging implements it. A plan of one cluster has none.
#pragma once

#include <cstdint>
#include <string>

namespace rookery {

// "averaging/momentum/fc1.weight": what a checkpoint has of an Averager; no parameter and no buffer may be
// called so.
inline std::string averaging_key(const std::string& state_name, const std::string& parameter) {
  return "averaging/" + state_name + "/" + parameter;
}
inline bool is_averaging_key(const std::string& name) {
  return name.starts_with("averaging/");
}
// The key of a cluster's error feedback: what compression has cost its own sums, which only this cluster
// keeps.
inline std::string residual_key(const std::string& parameter) {
  return averaging_key("residual", parameter);
}
inline bool is_residual_key(const std::string& name) {
  return name.starts_with(residual_key(""));
}

// Steps are those of the run, from 0, the same in all clusters. Called by the thread that trains.
class Averager {
 public:
  virtual ~Averager() = default;

  // Whether gradients are summed over the clusters: then losses take their mean over the samples of a step
  // that all clusters have.
  virtual bool sums_gradients() const = 0;
  // Where gradients are summed: before the last backward of a step, and in it whenever the gradient of a
  // parameter is there that this stage owns and uses alone.
  virtual void before_last_gradients(std::int64_t step) = 0;
  virtual void after_gradient_of(const std::string& parameter) = 0;
  // When all of this stage's gradients of the step are there, before they are clipped.
  virtual void after_gradients(std::int64_t step) = 0;
  // When the stage has made the step's update, and nobody has used it yet.
  virtual void after_update(std::int64_t step) = 0;

  // Whether all clusters hold the same model after so many steps; and the next number of steps, beyond this
  // one, after which they do.
  virtual bool is_united(std::int64_t steps) const = 0;
  virtual std::int64_t united_after(std::int64_t steps) const = 0;
};

}  // namespace rookery
