#include "node/run/node_process.hpp"

#include <utility>

#include "trainer/data/augment/augmented_dataset.hpp"
#include "trainer/feed/open_data.hpp"

namespace rookery {

NodeProcess::NodeProcess(NodeOptions options) : options_(std::move(options)) {}

const Dataset& NodeProcess::dataset(const TrainingSettings& settings) {
  if (options_.dataset != nullptr && settings.augment.empty()) return *options_.dataset;
  const bool is_open = opened_ != nullptr && opened_for_.data == settings.data &&
                       opened_for_.reading == settings.reading && opened_for_.augment == settings.augment;
  if (!is_open) {
    opened_.reset();  // the memory of two is not there
    opened_ = options_.dataset != nullptr ? augmented(*options_.dataset, settings.augment)
                                          : open_data(settings, options_.node_data);
    opened_for_ = settings;
  }
  return *opened_;
}

}  // namespace rookery
