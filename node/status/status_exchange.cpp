#include "node/status/status_exchange.hpp"

#include <utility>

namespace rookery {

StatusExchange::StatusExchange(ZmqLink* network, bool is_leaf,
                               std::function<void(const Progress&)> on_progress)
    : network_(network), is_leaf_(is_leaf), on_progress_(std::move(on_progress)) {}

void StatusExchange::tell(Progress progress) {
  if (progress.loss) status_.loss = *progress.loss;
  if (progress.accuracy) status_.accuracy = progress.accuracy;
  if (is_leaf_) progress.loss = status_.loss;
  if (network_ != nullptr) {
    if (is_leaf_) {
      status_.epoch = progress.epoch;
      status_.step = progress.step;
      network_->tell_status(status_);
    } else if (const auto heard = network_->heard_status()) {
      status_ = *heard;
      progress.loss = heard->loss;
    }
  }
  progress.accuracy = status_.accuracy;
  last_ = progress;
  if (on_progress_) on_progress_(progress);
}

void StatusExchange::tell_end() {
  if (last_ && !is_leaf_) tell(*last_);
}

}  // namespace rookery
