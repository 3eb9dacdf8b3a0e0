#include "clusterize/report/simulation_report.hpp"

#include <algorithm>
#include <cmath>

#include "clusterize/plan/node_metadata.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/text.hpp"
#include "trainer/checkpoint/checkpointer.hpp"

namespace rookery {
namespace {

constexpr std::size_t kMostNodes = 64;  // that the text shows
constexpr std::size_t kMostLinks = 10;

std::string percent(double share) {
  return fmt::format("{:.1f}%", 100 * share);
}

std::string step_text(const Simulation& simulation) {
  std::string text =
      fmt::format("One step: {} simulated, {} predicted ({:+.1f}%)", duration_text(simulation.step_seconds),
                  duration_text(simulation.predicted_step_seconds),
                  100 * (simulation.step_seconds / simulation.predicted_step_seconds - 1));
  if (simulation.averaging_seconds > 0) {
    text += fmt::format("; {} of it waiting for rounds of averaging, of which each takes {}{}",
                        duration_text(simulation.averaging_seconds), duration_text(simulation.round_seconds),
                        simulation.averaging_is_estimated ? " (estimated)" : "");
  }
  return text + fmt::format("; bubble (the share of time in which nodes do not compute) {}\n\n",
                            percent(simulation.bubble_share));
}

std::string node_table(const Simulation& simulation) {
  std::vector<NodeUse> nodes = simulation.nodes;
  std::string text;
  if (nodes.size() > kMostNodes) {
    const bool has_chunks =
        std::ranges::any_of(nodes, [](const NodeUse& use) { return machine_of_node(use.node) != use.node; });
    std::ranges::stable_sort(nodes, std::greater<>(), &NodeUse::computing);
    text = fmt::format("The {} busiest of {} {} (--json has all):\n", kMostNodes, nodes.size(),
                       has_chunks ? "stages" : "nodes");
    nodes.resize(kMostNodes);
  }
  text += fmt::format("{:<10} {:>7} {:>5} {:>9} {:>7} {:>9}\n", "node", "cluster", "stage", "computing",
                      "sending", "receiving");
  for (const NodeUse& node : nodes) {
    text += fmt::format("{:<10} {:>7} {:>5} {:>9} {:>7} {:>9}\n", node.node, node.cluster, node.stage,
                        percent(node.computing), percent(node.sending), percent(node.receiving));
  }
  return text;
}

std::string link_table(const Simulation& simulation) {
  if (simulation.links.empty()) return {};
  const std::size_t shown = std::min(kMostLinks, simulation.links.size());
  std::string text = shown < simulation.links.size()
                         ? fmt::format("The {} busiest of {} links:\n", shown, simulation.links.size())
                         : std::string();
  text += fmt::format("{:<23} {:>11} {:>7}\n", "link", "MB a step", "used");
  for (std::size_t i = 0; i < shown; ++i) {
    const LinkUse& link = simulation.links[i];
    text += fmt::format("{:<10} → {:<10} {:>11.3f} {:>7}{}\n", link.from, link.to, link.bytes / 1e6,
                        percent(link.used), link.from_cluster == link.to_cluster ? "" : "  averaging");
  }
  return text + "\n";
}

std::string failure_text(const FailureOutcome& outcome, const SimulationOptions& options,
                         const TrainingSettings& settings) {
  std::string text = fmt::format("With {:g} failures per node and hour: ", options.failures_per_hour);
  if (outcome.seconds) {
    text += fmt::format("done after {}, with {} failures that cost {}", duration_text(*outcome.seconds),
                        outcome.failures, duration_text(outcome.lost_seconds));
  } else {
    text += fmt::format("not done after {} failures in {}", outcome.failures,
                        duration_text(outcome.lost_seconds));
  }
  return text + fmt::format(
                    "; {} on average over many runs.\nEach ends the run, is noticed after {} "
                    "(peer_timeout_seconds), and {} later (--restart) training {}.\n",
                    duration_text(outcome.expected_seconds), duration_text(settings.peer_timeout_seconds),
                    duration_text(options.restart_seconds),
                    stops_between_steps(settings)
                        ? fmt::format("goes on from the last checkpoint (checkpoint_every: {})",
                                      settings.checkpoint_every)
                        : "starts again from the first step, since no checkpoints are made");
}

OrderedJson to_json(const FailureOutcome& outcome) {
  const auto number = [](double value) { return std::isfinite(value) ? OrderedJson(value) : OrderedJson(); };
  return {{"failures", outcome.failures},
          {"seconds", outcome.seconds ? OrderedJson(*outcome.seconds) : OrderedJson()},
          {"lost_seconds", outcome.lost_seconds},
          {"expected_seconds", number(outcome.expected_seconds)}};
}

}  // namespace

std::string describe_simulation(const Simulation& simulation, const SimulationOptions& options,
                                const TrainingSettings& settings) {
  std::string text = fmt::format(
      "Simulated: {} epoch{}, {} step{}: {} ({} of it validation), {:.0f} samples/s in training\n",
      simulation.epochs, simulation.epochs == 1 ? "" : "s", simulation.steps,
      simulation.steps == 1 ? "" : "s", duration_text(simulation.seconds),
      duration_text(simulation.validation_seconds), simulation.samples_per_second);
  if (options.straggler_share > 0) {
    text += fmt::format("In every step {} of the nodes compute {:g} times as slowly",
                        percent(options.straggler_share), options.straggler_factor);
    if (simulation.simulated_epochs < simulation.epochs)
      text += fmt::format("; {} epochs were simulated, the others take as long on average",
                          simulation.simulated_epochs);
    text += "\n";
  }
  text += step_text(simulation) + node_table(simulation) + "\n" + link_table(simulation);
  if (simulation.failures) text += failure_text(*simulation.failures, options, settings);
  return text;
}

OrderedJson to_json(const Simulation& simulation, const SimulationOptions& options) {
  OrderedJson nodes = OrderedJson::array();
  for (const NodeUse& node : simulation.nodes) {
    nodes.push_back({{"node", node.node},
                     {"cluster", node.cluster},
                     {"stage", node.stage},
                     {"computing", node.computing},
                     {"sending", node.sending},
                     {"receiving", node.receiving}});
  }
  OrderedJson links = OrderedJson::array();
  for (const LinkUse& link : simulation.links) {
    links.push_back({{"from", link.from},
                     {"to", link.to},
                     {"averaging", link.from_cluster != link.to_cluster},
                     {"bytes", link.bytes},
                     {"used", link.used}});
  }
  OrderedJson document = {{"epochs", simulation.epochs},
                          {"steps", simulation.steps},
                          {"samples", simulation.samples},
                          {"seconds", simulation.seconds},
                          {"validation_seconds", simulation.validation_seconds},
                          {"samples_per_second", simulation.samples_per_second},
                          {"step_seconds", simulation.step_seconds},
                          {"averaging_seconds", simulation.averaging_seconds},
                          {"round_seconds", simulation.round_seconds},
                          {"averaging_is_estimated", simulation.averaging_is_estimated},
                          {"predicted_step_seconds", simulation.predicted_step_seconds},
                          {"bubble_share", simulation.bubble_share},
                          {"seed", options.seed},
                          {"straggler_share", options.straggler_share},
                          {"straggler_factor", options.straggler_factor},
                          {"failures_per_hour", options.failures_per_hour},
                          {"restart_seconds", options.restart_seconds},
                          {"simulated_epochs", simulation.simulated_epochs},
                          {"simulated_actions", simulation.simulated_actions},
                          {"nodes", nodes},
                          {"links", links}};
  if (simulation.failures) document["failures"] = to_json(*simulation.failures);
  return document;
}

}  // namespace rookery
