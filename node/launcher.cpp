#include "node/launcher.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/program.hpp"
#include "node/address.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kPollPeriod{50};
constexpr milliseconds kRedrawPeriod{100};
constexpr seconds kFaultGrace{20};  // for providers to find out themselves that one of them is gone
constexpr seconds kStopGrace{10};   // from SIGTERM to SIGKILL

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

}  // namespace

Launcher::Launcher(LauncherOptions options, const std::vector<NodeMetadata>& nodes)
    : options_(std::move(options)) {
  check_local(nodes);
  providers_.reserve(nodes.size());
  for (const NodeMetadata& node : nodes) start(node);
}

Launcher::~Launcher() = default;

void Launcher::start(const NodeMetadata& node) {
  Provider& provider = providers_.emplace_back();
  provider.node = node.node;
  provider.line = fmt::format("{} {:<9}  starting", node.node, node.role());
  provider.process = std::make_unique<ChildProcess>(
      std::vector<std::string>{options_.provider.string(), "--json", "--name", node.node, "--node-data",
                               options_.node_data.string(), "--output", options_.output.string()});
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
    if (options_.live && Clock::now() - drawn_at_ >= kRedrawPeriod) draw();
  }
  if (options_.live) draw();
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
  provider.process->standard_output().read([&](const std::string& line) { show(provider, line); });
  provider.process->standard_error().read([&](const std::string& line) {
    provider.last_error = line;
    print_above(stderr, fmt::format("{} | {}", provider.node, line));
  });
}

void Launcher::show(Provider& provider, const std::string& json_line) {
  const std::optional<ProviderEvent> event = parse_json_line(json_line);
  if (!event) return print_above(stdout, fmt::format("{} | {}", provider.node, json_line));
  if (event->kind == ProviderEvent::Kind::kDone) {
    provider.report = event->text;
    if (!options_.live) print_above(stdout, provider.line);
    return;
  }
  const std::string before = std::exchange(provider.line, to_line(*event));
  if (event->kind == ProviderEvent::Kind::kProgress) {
    provider.training = true;
    const Progress& progress = event->progress;
    const std::int64_t tenth = progress.steps > 0 ? 10 * progress.step / progress.steps : 0;
    // The last line waits for the loss and accuracy that come after the last step.
    if (std::exchange(provider.tenth, tenth) == tenth || tenth == 10) return;
  } else if (provider.line == before) {
    return;
  }
  if (!options_.live) print_above(stdout, provider.line);
}

void Launcher::note_end(Provider& provider) {
  const std::optional<int> code = provider.process->exit_code();
  if (!code) return;
  read(provider);  // its last words
  provider.code = code;
  if (*code == 0) return;
  provider.line = fmt::format("{}  ended with exit code {}", provider.node, *code);
  if (first_failure_ == nullptr) {
    first_failure_ = &provider;
    failed_at_ = Clock::now();
  }
}

void Launcher::hand_on_signal() {
  if (signal_ != 0 || stop_signal() == 0) return;
  signal_ = stop_signal();
  stopped_at_ = Clock::now();
  for (const Provider& provider : providers_) provider.process->signal(signal_);
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
  if (!stopped_at_ || now - *stopped_at_ < kStopGrace) return;
  for (const Provider& provider : providers_) {
    if (!provider.code && (signal_ != 0 || provider.told_to_end)) provider.process->signal(SIGKILL);
  }
}

void Launcher::print_above(std::FILE* stream, const std::string& text) {
  if (drawn_lines_ > 0) {
    fmt::print("\x1b[{}A\x1b[J", drawn_lines_);
    std::fflush(stdout);
    drawn_lines_ = 0;
  }
  fmt::print(stream, "{}\n", text);
  std::fflush(stream);
  if (options_.live) draw();
}

void Launcher::draw() {
  if (drawn_lines_ > 0) fmt::print("\x1b[{}A", drawn_lines_);
  for (const Provider& provider : providers_) fmt::print("\x1b[K{}\n", provider.line);
  std::fflush(stdout);
  drawn_lines_ = static_cast<int>(providers_.size());
  drawn_at_ = Clock::now();
}

bool Launcher::all_ended() const {
  return std::all_of(providers_.begin(), providers_.end(),
                     [](const Provider& provider) { return provider.code; });
}

int Launcher::conclude() const {
  if (signal_ != 0) throw_if_stopped();
  int worst = 0;
  for (const Provider& provider : providers_) {
    if (provider.code == 0) fmt::print("{}: {}\n", provider.node, provider.report);
    if (!provider.told_to_end) worst = std::max(worst, *provider.code);
  }
  if (first_failure_ != nullptr) {
    fmt::print(stderr, "launch: {} was the first to fail, with exit code {}{}\n", first_failure_->node,
               *first_failure_->code,
               first_failure_->last_error.empty() ? "" : ": " + first_failure_->last_error);
  }
  return worst;
}

}  // namespace rookery
