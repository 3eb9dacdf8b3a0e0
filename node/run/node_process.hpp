// The things that a provider keeps as long as its process lives, whatever plan it works on.
#pragma once

#include <memory>
#include <string>

#include "node/run/node_options.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

// One thread.
class NodeProcess {
 public:
  explicit NodeProcess(NodeOptions options);

  const NodeOptions& options() const { return options_; }
  // The options' data set, augmented, or that of these settings, opened at the first call. It lives as long
  // as the process, or until another one is asked for. ConfigError, DataError.
  const Dataset& dataset(const TrainingSettings& settings);

 private:
  const NodeOptions options_;
  std::unique_ptr<Dataset> opened_;
  TrainingSettings opened_for_;
};

}  // namespace rookery
