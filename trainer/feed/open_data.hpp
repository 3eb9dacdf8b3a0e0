// The data set of a training: that of its settings, augmented as they say.
#pragma once

#include <filesystem>
#include <memory>

#include "trainer/data/dataset.hpp"
#include "trainer/settings/settings.hpp"

namespace rookery {

// ConfigError, DataError.
std::unique_ptr<Dataset> open_data(const TrainingSettings& settings, const std::filesystem::path& node_data);

}  // namespace rookery
