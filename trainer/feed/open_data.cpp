#include "trainer/feed/open_data.hpp"

#include "trainer/data/augment/augmented_dataset.hpp"

namespace rookery {

std::unique_ptr<Dataset> open_data(const TrainingSettings& settings, const std::filesystem::path& node_data) {
  return augmented(open_dataset(settings.data, node_data, settings.reading), settings.augment);
}

}  // namespace rookery
