// All providers of a plan on this machine, watched together: starts them, shows their progress, hands
// on stop signals, and sees to it that all of them end.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clusterize/plan/cluster_plan.hpp"
#include "node/child_process.hpp"
#include "node/provider_events.hpp"

namespace rookery {

struct LauncherOptions {
  std::filesystem::path provider;  // the program
  std::filesystem::path node_data;
  std::filesystem::path output;
  bool live = false;  // redraw lines on a terminal; otherwise one line at every tenth of the run
};

// One thread. catch_stop_signals() comes first.
class Launcher {
 public:
  // ConfigError naming nodes whose address is not of this machine.
  Launcher(LauncherOptions options, const std::vector<NodeMetadata>& nodes);
  ~Launcher();

  // Until all have ended. The worst of their exit codes; Interrupted after a stop signal.
  int run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Provider {
    std::string node;
    std::unique_ptr<ChildProcess> process;
    std::string line;        // what is shown of it
    std::string last_error;  // its last line on standard error
    std::string report;
    bool training = false;
    bool told_to_end = false;  // by this program, because another one failed
    std::int64_t tenth = 0;
    std::optional<int> code;
  };

  void start(const NodeMetadata& node);
  void wait_for_news();
  void read(Provider& provider);
  void show(Provider& provider, const std::string& json_line);
  void note_end(Provider& provider);
  void hand_on_signal();
  void end_stragglers();
  void print_above(std::FILE* stream, const std::string& text);
  void draw();
  bool all_ended() const;
  int conclude() const;

  LauncherOptions options_;
  std::vector<Provider> providers_;
  const Provider* first_failure_ = nullptr;
  std::optional<Clock::time_point> failed_at_;
  std::optional<Clock::time_point> stopped_at_;  // a signal was handed on, or stragglers were told to end
  Clock::time_point drawn_at_{};
  int drawn_lines_ = 0;
  int signal_ = 0;
};

}  // namespace rookery
