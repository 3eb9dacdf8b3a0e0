#include "clusterize/planner/choices/choose_transport.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "clusterize/simulation/simulation.hpp"

namespace rookery {
namespace {

// A setting of a link that may be chosen.
struct Dial {
  std::string* setting = nullptr;
  const std::vector<std::string>* possible = nullptr;
};

std::vector<Dial> dials_of(const TransportSettings& settings, std::vector<PlannedLink>& links) {
  std::vector<Dial> dials;
  for (PlannedLink& link : links) {
    if (settings.activations == kAutoTransport)
      dials.push_back({&link.transport.activations, &possible_activations()});
    if (settings.gradients == kAutoTransport)
      dials.push_back({&link.transport.gradients, &possible_gradients()});
  }
  return dials;
}

}  // namespace

const std::vector<std::string>& possible_activations() {
  static const std::vector<std::string> possible{"none", "fp16", "int8"};
  return possible;
}

const std::vector<std::string>& possible_gradients() {
  static const std::vector<std::string> possible{"none", "bf16", "int8"};
  return possible;
}

TransportSettings strongest_transport(const TransportSettings& asked) {
  TransportSettings strongest = asked;
  if (asked.activations == kAutoTransport) strongest.activations = possible_activations().back();
  if (asked.gradients == kAutoTransport) strongest.gradients = possible_gradients().back();
  return strongest;
}

std::vector<PlannedLink> choose_transport(const TrainingTask& task, const NodePool& pool, Planned& planned,
                                          std::size_t cluster) {
  constexpr double kHardlyLonger = 1.005;
  std::vector<PlannedLink>& links = planned.plan.clusters[cluster].links;
  const std::vector<PlannedLink> before = links;
  const std::vector<Dial> dials = dials_of(task.settings.transport, links);
  const auto seconds = [&] {
    return simulated_step_seconds(task, pool, planned, cluster, task.settings.batch_size);
  };
  for (const Dial& dial : dials) *dial.setting = dial.possible->front();
  const double none = seconds();
  for (const Dial& dial : dials) *dial.setting = dial.possible->back();
  const double shortest = seconds();
  const bool is_worth_it = shortest < none * (1 - kLeastTransportGain);
  const double limit = std::min(none, shortest * kHardlyLonger);
  for (const Dial& dial : dials) {
    for (const std::string& next : *dial.possible) {
      *dial.setting = next;
      if (!is_worth_it || next == dial.possible->back() || seconds() <= limit) break;
    }
  }
  std::vector<PlannedLink> chosen = links;
  links = before;
  return chosen;
}

}  // namespace rookery
