// All providers of a plan on this machine, watched together: starts them, each for all stages of one of the
// plan's machines, shows their progress, hands on stop signals, and sees to it that all of them end.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clusterize/plan/node_metadata.hpp"
#include "node/launch/child_process.hpp"
#include "node/membership/root_cause.hpp"
#include "node/run_display.hpp"
#include "node/transport/slow_network.hpp"
#include "trainer/checkpoint/checkpoint_part.hpp"
#include "trainer/checkpoint/reshard/start_choice.hpp"

namespace rookery {

struct LauncherOptions {
  std::filesystem::path provider;  // the program
  std::filesystem::path node_data;
  std::filesystem::path output;
  // Of every provider; where there is a cluster to sync from, this one's have no part in that, and all others
  // none in `resume`.
  StartChoice start;
  std::optional<int> threads;  // of each provider; nothing: as the plan says, shared out
  NetworkLimits limits;        // likewise
  // Events as JSON lines in place of a display, with at least so many seconds between two of a node's
  // progress.
  std::optional<std::string> json_interval;
  std::vector<std::string> output_arguments;  // those of each
};

// One thread. catch_stop_signals() comes first.
class Launcher {
 public:
  // ConfigError naming nodes whose address is not of this machine, or whose machine is not among `nodes`, and
  // as check_start().
  Launcher(LauncherOptions options, const std::vector<NodeMetadata>& nodes);
  ~Launcher();

  // Until all have ended. The exit code of the one whose failure ended the others, which the last line names
  // with its reason; Interrupted after a stop signal.
  int run();

 private:
  using Clock = std::chrono::steady_clock;
  // The process of a machine.
  struct Provider {
    std::string machine;  // as its first node is called
    std::unique_ptr<ChildProcess> process;
    // Why the first of its nodes failed that has; until one says so its last line on standard error.
    std::string last_error;
    std::optional<std::size_t> failed;  // that node
    bool training = false;
    bool told_to_end = false;  // by this program, because another one failed
    std::optional<int> code;
  };
  // A stage, of which its machine's provider tells.
  struct LaunchedNode {
    std::string node;
    std::string name;  // "node_1 (127.0.0.1:8081)", as its peers call it
    std::string role;
    std::size_t provider = 0;
    std::string error;  // why it failed, where it says so
    std::string report;
    CheckpointOwner checkpoints;
  };

  StartChoice choice_of(const NodeMetadata& node) const;
  void check_starts(const std::vector<NodeMetadata>& nodes) const;
  void add(const NodeMetadata& node);
  std::unique_ptr<ChildProcess> start(const NodeMetadata& machine, int threads) const;
  LaunchedNode* find(const Provider& provider, const std::string& node);
  void wait_for_news();
  void read(Provider& provider);
  void take(Provider& provider, const std::string& line);
  void note_failure(Provider& provider, LaunchedNode& node, const std::string& why);
  void note_end(Provider& provider);
  void hand_on_signal();
  void end_stragglers();
  bool is_training() const;
  bool is_out_of_patience(Clock::time_point now) const;
  std::string way_on() const;
  bool all_ended() const;
  int conclude();
  const std::string& message_of(const LaunchedNode& node) const;
  Blame find_cause() const;
  int tell_failure() const;
  void tell_end(int code, const std::string& failed_first, const std::string& text) const;

  LauncherOptions options_;
  RunDisplay display_;
  std::vector<Provider> providers_;
  std::vector<LaunchedNode> nodes_;  // by cluster and stage
  // Of a provider, as this program heard of it; not always the cause.
  std::optional<std::size_t> first_failure_;
  std::optional<Clock::time_point> failed_at_;
  std::optional<Clock::time_point> stopped_at_;  // a signal was handed on, or stragglers were told to end
  std::optional<Clock::time_point> ended_at_;    // the first that has
  bool stops_between_steps_;                     // of the plan's settings
  bool has_trained_ = false;                     // some provider, in this run
  int signal_ = 0;
};

}  // namespace rookery
