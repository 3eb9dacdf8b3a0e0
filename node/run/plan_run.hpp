// A node's part in one plan: what lives from reading the plan's metadata until its weights are
// saved and it has left the network.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/plan/stage_folder.hpp"
#include "clusterize/plan/trained_file.hpp"
#include "models/base/error.hpp"
#include "models/base/files/file_lock.hpp"
#include "models/base/process/stop_signals.hpp"
#include "models/runtime/executable.hpp"
#include "node/run/node_process.hpp"
#include "node/run/node_report.hpp"
#include "node/run/run_network.hpp"
#include "node/status/figures_exchange.hpp"
#include "trainer/agreement.hpp"
#include "trainer/averaging/averagers.hpp"
#include "trainer/averaging/ring/rings.hpp"
#include "trainer/checkpoint/checkpointer.hpp"
#include "trainer/progress/tensorboard/run_folder.hpp"
#include "trainer/schedule/work_trace.hpp"

namespace rookery {

// One thread, the process's.
class PlanRun {
 public:
  // Node's constructor says what happens here. `process` outlives the run.
  explicit PlanRun(NodeProcess& process);

  const NodeMetadata& metadata() const { return metadata_; }
  const MemoryUse& memory() const { return executable_->memory(); }

  // Node::run(), once.
  NodeReport run(const std::function<void(Trainer&)>& loop);

 private:
  void take_room(const LoadedStage& loaded);
  void open_data(const Stage& stage);
  void compile(LoadedStage loaded);
  NodeReport train_with_others(const std::function<void(Trainer&)>& loop);
  NodeReport train(RunLog& status, const std::function<void(Trainer&)>& loop);
  void join_clusters();
  FiguresOptions figures_options(RunFolder& board);
  void add_rounds(NodeReport& report) const;
  void write_trace() const;
  void end_trace() const;
  FurtherState further_state();
  RunCourse course(const RunState& from);
  std::int64_t united_place_after(std::int64_t step) const;
  Agreement agreement();
  CheckpointOwner checkpoint_owner() const;
  std::int64_t steps() const;
  std::optional<RunState> starting_point();
  [[noreturn]] void end_early(const StoppedRun& stopped);
  std::string name_of(const StopRequest& request) const;
  void advise(Error& error);
  std::exception_ptr run_loop(Trainer& trainer, const std::function<void(Trainer&)>& loop) const;
  void save(const Trainer& trainer);

  NodeProcess& process_;
  const FileLock lock_;  // on the plan
  const NodeMetadata metadata_;
  const std::filesystem::path output_;  // of logs
  std::optional<TrainedFile> trained_;  // where weights are saved
  std::optional<RunNetwork> network_;
  const Dataset* dataset_ = nullptr;  // the Root's, the process's
  std::optional<Executable> executable_;
  // Only where there are several clusters.
  std::optional<Rings> rings_;
  std::unique_ptr<StatefulAverager> averager_;
  std::optional<ClusterRoots> roots_;  // on a Root
  WorkTrace trace_;                    // where options ask for it
  std::int64_t floor_bytes_ = 0;       // anonymous memory of the program itself
  std::optional<Checkpointer> checkpoints_;
  std::optional<StopDeferral> stops_later_;  // between two steps
  bool is_stopped_ = false;                  // there
  bool is_trained_ = false;                  // to the end
  std::int64_t steps_ahead_ = 0;             // where the run goes on with batches of another size
  bool is_saved_ = false;
  std::exception_ptr not_saved_;  // why the weights are not in their place
};

}  // namespace rookery
