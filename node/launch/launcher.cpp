#include "node/launch/launcher.hpp"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <string>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/files/json_file.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/machine/processors.hpp"
#include "models/base/process/program.hpp"
#include "models/base/process/stop_signals.hpp"
#include "node/options/limit_options.hpp"
#include "node/options/start_options.hpp"
#include "node/sockets/address.hpp"
#include "trainer/checkpoint/checkpointer.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPollPeriod{50};
constexpr const char* kProgressInterval = "0.1";  // seconds
// For providers to find out themselves that one of them is gone.
constexpr std::chrono::seconds kFaultGrace{20};
// From SIGTERM to SIGKILL.
constexpr std::chrono::seconds kStopGrace{10};
// The same for those that end the step that they are in, with its validation, and write a checkpoint. They
// themselves wait for each other no longer.
constexpr std::chrono::minutes kStepGrace{10};

void check_local(const std::vector<NodeMetadata>& nodes) {
  std::string strangers;
  for (const NodeMetadata& node : nodes) {
    if (is_local(Address::parse(node.address))) continue;
    strangers += fmt::format("{}{} ({})", strangers.empty() ? "" : ", ", node.node, node.address);
  }
  if (strangers.empty()) return;
  throw ConfigError(
      fmt::format("launch starts providers of this machine only, and these have other addresses: {}: "
                  "run \"provider --name node_N\" on each machine",
                  strangers));
}

std::vector<std::string> names_of(const std::vector<NodeMetadata>& nodes) {
  std::vector<std::string> names;
  for (const NodeMetadata& node : nodes) names.push_back(node.node);
  return names;
}

// Of each machine the metadata of its first node, which names the provider of all.
std::vector<NodeMetadata> machines_of(const std::vector<NodeMetadata>& nodes) {
  std::vector<NodeMetadata> machines;
  std::ranges::copy_if(nodes, std::back_inserter(machines),
                       [](const NodeMetadata& node) { return machine_of_node(node.node) == node.node; });
  return machines;
}

}  // namespace

Launcher::Launcher(LauncherOptions options, const std::vector<NodeMetadata>& nodes)
    : options_(std::move(options)),
      display_(names_of(nodes)),
      stops_between_steps_(stops_between_steps(nodes.front().settings)) {
  check_local(nodes);
  check_starts(nodes);
  const std::vector<NodeMetadata> machines = machines_of(nodes);
  // All are on this machine, whatever their addresses.
  int together = 0;
  for (const NodeMetadata& machine : machines) {
    providers_.push_back({.machine = machine.node});
    together += machine.threads;
  }
  for (const NodeMetadata& node : nodes) add(node);
  const int processors = usable_processors();
  for (std::size_t i = 0; i < machines.size(); ++i) {
    const int share = share_of_processors(machines[i].threads, together, processors);
    providers_[i].process = start(machines[i], options_.threads.value_or(share));
  }
}

Launcher::~Launcher() = default;

StartChoice Launcher::choice_of(const NodeMetadata& node) const {
  StartChoice choice = options_.start;
  if (choice.sync_from == node.cluster) return {.resume = choice.resume};
  if (choice.sync_from) choice.resume = false;
  return choice;
}

void Launcher::check_starts(const std::vector<NodeMetadata>& nodes) const {
  for (const NodeMetadata& node : nodes) {
    // The only cluster would be the one that gives its state.
    const StartChoice& choice = node.clusters == 1 ? options_.start : choice_of(node);
    check_start(choice, node.cluster, node.clusters, node.settings);
  }
}

void Launcher::add(const NodeMetadata& node) {
  const std::string machine = machine_of_node(node.node);
  const auto provider = std::ranges::find(providers_, machine, &Provider::machine);
  if (provider == providers_.end())
    throw ConfigError(
        fmt::format("{}: there is {}, but not {}, whose provider trains it: run clusterize again",
                    (options_.node_data / "nodes").string(), node.node, machine));
  nodes_.push_back(
      {.node = node.node,
       .name = fmt::format("{} ({})", node.node, node.address),
       .role = node.role(),
       .provider = static_cast<std::size_t>(provider - providers_.begin()),
       .checkpoints = {options_.node_data, node.plan_id, node.stage, node.stages, node.cluster}});
}

std::unique_ptr<ChildProcess> Launcher::start(const NodeMetadata& machine, int threads) const {
  std::vector<std::string> command{options_.provider.string(),
                                   "--json",
                                   "--progress-interval",
                                   options_.json_interval.value_or(kProgressInterval),
                                   "--name",
                                   machine.node,
                                   "--node-data",
                                   options_.node_data.string(),
                                   "--output",
                                   options_.output.string(),
                                   "--threads",
                                   std::to_string(threads)};
  for (std::string& argument : start_arguments(choice_of(machine))) command.push_back(std::move(argument));
  for (std::string& argument : limit_arguments(options_.limits)) command.push_back(std::move(argument));
  for (const std::string& argument : options_.output_arguments) command.push_back(argument);
  return std::make_unique<ChildProcess>(command);
}

// Nothing where it is not the provider's to tell of.
Launcher::LaunchedNode* Launcher::find(const Provider& provider, const std::string& node) {
  const auto found = std::ranges::find(nodes_, node, &LaunchedNode::node);
  if (found == nodes_.end() || providers_[found->provider].machine != provider.machine) return nullptr;
  return &*found;
}

int Launcher::run() {
  while (!all_ended()) {
    wait_for_news();
    hand_on_signal();
    for (Provider& provider : providers_) {
      read(provider);
      if (!provider.code) note_end(provider);
    }
    end_stragglers();
    display_.tick(Clock::now());
  }
  display_.finish();
  return conclude();
}

void Launcher::wait_for_news() {
  std::vector<pollfd> items;
  if (signal_ == 0) items.push_back({stop_descriptor(), POLLIN, 0});
  for (Provider& provider : providers_) {
    for (const LineReader* reader :
         {&provider.process->standard_output(), &provider.process->standard_error()}) {
      if (reader->descriptor() >= 0) items.push_back({reader->descriptor(), POLLIN, 0});
    }
  }
  ::poll(items.data(), items.size(), static_cast<int>(kPollPeriod.count()));
}

void Launcher::read(Provider& provider) {
  provider.process->standard_output().read([&](const std::string& line) { take(provider, line); });
  provider.process->standard_error().read([&](const std::string& line) {
    if (!provider.failed) provider.last_error = line;
    display_.print(stderr, fmt::format("{} | {}", provider.machine, line));
  });
}

void Launcher::take(Provider& provider, const std::string& line) {
  const std::optional<ProviderEvent> event = parse_json_line(line);
  LaunchedNode* const node = event ? find(provider, event->node) : nullptr;
  if (node == nullptr) {
    std::FILE* const stream = options_.json_interval ? stderr : stdout;
    return display_.print(stream, fmt::format("{} | {}", provider.machine, line));
  }
  if (options_.json_interval) print_now(line + "\n");  // with all that only a provider knows
  switch (event->kind) {
    case ProviderEvent::Kind::kDone:
      node->report = event->text;
      break;
    case ProviderEvent::Kind::kFailed:
      note_failure(provider, *node, event->text);
      return;  // note_end() shows it
    default:
      // From where it goes on is told as waiting, when it trains already.
      provider.training = provider.training || event->kind != ProviderEvent::Kind::kWaiting;
      has_trained_ = has_trained_ || event->kind == ProviderEvent::Kind::kProgress;
  }
  display_.show(*event, Clock::now());
}

void Launcher::note_failure(Provider& provider, LaunchedNode& node, const std::string& why) {
  node.error = why;
  if (provider.failed) return;
  provider.failed = static_cast<std::size_t>(&node - nodes_.data());
  provider.last_error = why;
}

// The process ends when all its nodes have ended, and its exit code is of all of them.
void Launcher::note_end(Provider& provider) {
  const std::optional<int> code = provider.process->exit_code();
  if (!code) return;
  read(provider);  // its last words
  provider.code = code;
  ended_at_ = ended_at_.value_or(Clock::now());
  if (*code == 0) return;
  const auto index = static_cast<std::size_t>(&provider - providers_.data());
  for (const LaunchedNode& node : nodes_) {
    if (node.provider != index) continue;
    display_.show({.kind = ProviderEvent::Kind::kFailed,
                   .node = node.node,
                   .role = node.role,
                   .text = fmt::format("ended with exit code {}", *code)},
                  Clock::now());
  }
  if (first_failure_) return;
  first_failure_ = index;
  failed_at_ = Clock::now();
}

void Launcher::hand_on_signal() {
  if (signal_ != 0 || stop_signal() == 0) return;
  signal_ = stop_signal();
  stopped_at_ = Clock::now();
  // Providers have output of their own, which is read.
  for (const Provider& provider : providers_)
    provider.process->signal(signal_ == SIGPIPE ? SIGTERM : signal_);
  if (is_training() && stops_between_steps_) {
    display_.print(
        stderr,
        "launch: the step that is being trained is ended and its checkpoint written first; another "
        "signal ends everything at once");
  }
}

bool Launcher::is_training() const {
  return std::ranges::any_of(providers_, &Provider::training);
}

// Providers end by themselves when one of them fails; those that wait for one that will never come,
// or that hang, are ended here.
void Launcher::end_stragglers() {
  const auto now = Clock::now();
  if (failed_at_ && signal_ == 0) {
    for (Provider& provider : providers_) {
      if (provider.code || provider.told_to_end) continue;
      if (provider.training && now - *failed_at_ < kFaultGrace) continue;
      provider.told_to_end = true;
      if (!stopped_at_) stopped_at_ = now;
      provider.process->signal(SIGTERM);
    }
  }
  if (!is_out_of_patience(now)) return;
  for (const Provider& provider : providers_) {
    if (!provider.code && (signal_ != 0 || provider.told_to_end)) provider.process->signal(SIGKILL);
  }
}

// Providers that stop between steps do so together: when one has ended, the others are about to, or find out
// that it is gone.
bool Launcher::is_out_of_patience(Clock::time_point now) const {
  if (!stopped_at_ || now - *stopped_at_ < kStopGrace) return false;
  if (signal_ == 0 || !stops_between_steps_ || !is_training()) return true;
  return now - *stopped_at_ >= kStepGrace || (ended_at_ && now - *ended_at_ >= kFaultGrace);
}

bool Launcher::all_ended() const {
  return std::all_of(providers_.begin(), providers_.end(),
                     [](const Provider& provider) { return provider.code; });
}

int Launcher::conclude() {
  const auto failed = [](const Provider& provider) { return provider.code != 0; };
  // One that came in the last step has stopped nothing.
  if (signal_ != 0 && std::ranges::any_of(providers_, failed)) {
    const std::string text = fmt::format("stopped by {}{}", signal_name(signal_), way_on());
    tell_end(kSignalBase + signal_, "", text);
    throw Interrupted(signal_, text);
  }
  for (const LaunchedNode& node : nodes_) {
    if (providers_[node.provider].code == 0 && !options_.json_interval)
      display_.print(stdout, fmt::format("{}: {}", node.node, node.report));
  }
  if (first_failure_) return tell_failure();
  tell_end(kDone, "", "");
  return kDone;
}

void Launcher::tell_end(int code, const std::string& failed_first, const std::string& text) const {
  if (!options_.json_interval) return;
  OrderedJson line{{"event", "ended"}, {"exit_code", code}};
  if (!failed_first.empty()) line["failed_first"] = failed_first;
  if (!text.empty()) line["text"] = text;
  print_now(line.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

// From where the run goes on; empty where this run has written nothing to go on from.
std::string Launcher::way_on() const {
  std::vector<std::int64_t> whole = part_steps(nodes_.front().checkpoints);
  for (const LaunchedNode& node : nodes_) {
    std::vector<std::int64_t> common;
    std::ranges::set_intersection(whole, part_steps(node.checkpoints), std::back_inserter(common));
    whole = common;
  }
  if (whole.empty() || !has_trained_) return "";
  return fmt::format("; the checkpoint of step {} is written, go on from there with launch --resume",
                     whole.back());
}

// Why it ended: what it says, or else another node of its process.
const std::string& Launcher::message_of(const LaunchedNode& node) const {
  return node.error.empty() ? providers_[node.provider].last_error : node.error;
}

Blame Launcher::find_cause() const {
  std::vector<EndedNode> ended;
  for (const LaunchedNode& node : nodes_) ended.push_back({node.name, message_of(node)});
  const auto is_of_first = [&](const LaunchedNode& node) { return node.provider == *first_failure_; };
  const auto machine = static_cast<std::size_t>(std::ranges::find_if(nodes_, is_of_first) - nodes_.begin());
  const Blame blame = root_cause(ended, providers_[*first_failure_].failed.value_or(machine));
  if (blame.witness || !ended[blame.cause].message.empty()) return blame;
  // A process that was killed says nothing, and others may have lost any of its nodes.
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    if (!is_of_first(nodes_[node])) continue;
    if (const Blame other = root_cause(ended, node); other.witness) return other;
  }
  return blame;
}

int Launcher::tell_failure() const {
  const Blame blame = find_cause();
  const LaunchedNode& node = nodes_[blame.cause];
  const Provider& cause = providers_[node.provider];
  const bool by_itself = cause.code != 0 && !cause.told_to_end;
  std::string why = by_itself ? message_of(node) : "";
  if (why.empty() && blame.witness)
    why = fmt::format("{} says: {}", nodes_[*blame.witness].node, message_of(nodes_[*blame.witness]));
  std::string how;
  if (by_itself) {
    how = *cause.code > kSignalBase ? fmt::format(" (ended by {})", signal_name(*cause.code - kSignalBase))
                                    : fmt::format(" (exit code {})", *cause.code);
  }
  const std::string text =
      fmt::format("{} failed first{}{}{}{}", node.node, how, why.empty() ? "" : ": ", why, way_on());
  fmt::print(stderr, "launch: {}\n", text);
  const int code = by_itself ? *cause.code : kFailed;
  tell_end(code, node.node, text);
  return code;
}

}  // namespace rookery
