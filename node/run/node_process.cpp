#include "node/run/node_process.hpp"

#include <utility>

namespace rookery {

NodeProcess::NodeProcess(NodeOptions options) : options_(std::move(options)) {}

const Dataset& NodeProcess::dataset(const std::string& name) {
  if (options_.dataset != nullptr) return *options_.dataset;
  if (opened_ == nullptr || opened_name_ != name) {
    opened_.reset();  // the memory of two is not there
    opened_ = open_dataset(name, options_.node_data);
    opened_name_ = name;
  }
  return *opened_;
}

}  // namespace rookery
