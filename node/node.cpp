#include "node/node.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "clusterize/plan/cluster_plan.hpp"
#include "clusterize/plan/plan_lock.hpp"
#include "clusterize/plan/stage_folder.hpp"
#include "clusterize/plan/trained_file.hpp"
#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/process/cpu_steal.hpp"
#include "models/base/process/program.hpp"
#include "models/kernels/threads.hpp"
#include "node/membership/membership.hpp"
#include "node/transport/zmq_link.hpp"
#include "node/wire/packets.hpp"
#include "node/wire/stream.hpp"
#include "trainer/feed/split.hpp"
#include "trainer/memory_link.hpp"
#include "trainer/progress/text_files.hpp"
#include "trainer/transfers.hpp"

namespace rookery {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kLeastBudget = 1U << 20;
constexpr std::uint64_t kLeastLogBytes = 1U << 16;

// Every stage uses a peer's tensors in the order of micro-batches in which that peer sends them, so one of
// each under way would do to never block for ever. What the end of a step moves is counted with them.
void set_budgets(ZmqLinkOptions& options, const Stage& stage, const NodeMetadata& metadata) {
  struct Traffic {
    std::uint64_t sent = 0, received = 0;
  };
  std::map<int, Traffic> traffic;
  std::vector<std::uint64_t> buffers;
  options.max_message_bytes = kNumberBytes;
  const std::int64_t micro_batch = micro_batch_sizes(metadata.settings, metadata.settings.batch_size).front();
  for (const Transfer& transfer : transfers(stage, micro_batch)) {
    const auto bytes = static_cast<std::uint64_t>(transfer.bytes);
    Traffic& with_peer = traffic[transfer.peer];
    (transfer.is_sent ? with_peer.sent : with_peer.received) +=
        kTransfersUnderWay * message_cost(bytes, kMaxChunkBytes);
    options.max_message_bytes = std::max(options.max_message_bytes, bytes);
    buffers.insert(buffers.end(), kTransfersUnderWay, bytes);
  }
  options.send_budget = options.receive_budget = kLeastBudget;
  for (const auto& [peer, needs] : traffic) {
    options.send_budget = std::max(options.send_budget, needs.sent);
    options.receive_budget = std::max(options.receive_budget, needs.received);
  }
  options.buffers = BufferPool(buffers);
}

milliseconds to_milliseconds(double seconds) {
  return milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

ZmqLinkOptions link_options(const NodeOptions& options, const NodeMetadata& metadata) {
  ZmqLinkOptions link;
  link.node = metadata.node;
  link.stage = metadata.stage;
  link.address = options.listen.empty() ? metadata.address : options.listen;
  link.key = {metadata.plan_id, metadata.token};
  link.wait_for_peers = options.wait_for_peers;
  const TrainingSettings& settings = metadata.settings;
  link.peer_timeout = to_milliseconds(settings.peer_timeout_seconds);
  link.heartbeat = std::min(link.heartbeat, link.peer_timeout / 4);
  link.reconnect_grace = settings.reconnect_grace_seconds
                             ? std::min(to_milliseconds(*settings.reconnect_grace_seconds), link.peer_timeout)
                             : link.peer_timeout;
  link.on_waiting = options.on_waiting;
  return link;
}

// Resident bytes: "VmHWM", the peak; "RssAnon" and "RssFile", of the present the anonymous and the mapped.
std::int64_t process_memory(std::string_view what) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    std::istringstream fields(line);
    std::string key;
    std::int64_t kilobytes = 0;
    if (fields >> key >> kilobytes && key == fmt::format("{}:", what)) return kilobytes * 1024;
  }
  return 0;
}

void report_times(const StepTimes& times, NodeReport& report) {
  const auto per = [](double seconds, std::int64_t count) {
    return count == 0 ? 0 : 1e3 * seconds / static_cast<double>(count);
  };
  report.compared_steps = times.steps;
  report.forward_ms = per(times.work.forward, times.work.micro_batches);
  report.backward_ms = per(times.work.backward, times.work.micro_batches);
  report.update_ms = per(times.work.update, times.steps);
  report.step_ms = per(times.seconds, times.steps);
}

}  // namespace

void check_runnable(const NodeMetadata& metadata) {
  const std::string problem = training_problem(static_cast<std::size_t>(metadata.clusters));
  if (!problem.empty()) throw ConfigError(problem);
}

struct Node::Impl {
  explicit Impl(NodeOptions given)
      : options(std::move(given)),
        lock(lock_for_running(options.node_data, options.on_waiting)),
        metadata(read_metadata(options.node_data, options.name)) {
    check_runnable(metadata);
    make_directories(options.output);
    set_kernel_threads(options.threads);
    LoadedStage loaded = read_stage(stage_folder(options.node_data, metadata), metadata);
    take_room(loaded);
    listen(loaded.stage);
    throw_if_stopped();
    if (loaded.stage.is_root()) {
      dataset = options.dataset;
      if (dataset == nullptr) {
        opened = open_dataset(metadata.settings.data, options.node_data);
        dataset = opened.get();
      }
      check_planned_samples(split_dataset(dataset->size(), metadata.settings), metadata.settings,
                            metadata.data);
    }
    throw_if_stopped();
    CompileOptions compile =
        compile_options(metadata.settings, metadata.data, metadata.stage, metadata.stages, metadata.kernels);
    compile.recompute = metadata.recompute;
    // What the plan counts is no part of the floor, though it is here already.
    floor_bytes = process_memory("RssAnon") - transport_bytes - (dataset != nullptr ? dataset->bytes() : 0);
    for (const auto& [name, tensor] : loaded.state)
      floor_bytes -= static_cast<std::int64_t>(tensor.type().bytes());
    executable.emplace(loaded.stage, compile, std::move(loaded.state));
  }

  // That there is no room for what a run writes is told before anybody trains for it.
  void take_room(const LoadedStage& loaded) {
    if (metadata.settings.save) trained.emplace(options.node_data, metadata, views_of(loaded.state));
    // The logs themselves begin when all peers are here: until then those of the run before stay.
    if (loaded.stage.is_leaf()) AtomicFile(options.output / "losses.txt", kLeastLogBytes);
  }

  // A cluster of one has nobody to talk to: no sockets.
  void listen(const Stage& stage) {
    if (metadata.stages == 1) {
      link = std::move(make_memory_links(1, milliseconds(0)).front());
      return;
    }
    ZmqLinkOptions made = link_options(options, metadata);
    set_budgets(made, stage, metadata);
    transport_bytes = static_cast<std::int64_t>(made.buffers.bytes());
    catch_stop_signals();
    made.stop_descriptor = stop_descriptor();
    auto network_link = std::make_unique<ZmqLink>(made);
    network = network_link.get();
    link = std::move(network_link);
  }

  void join() {
    if (network == nullptr) return;
    std::vector<ZmqPeer> peers;
    for (const PeerInfo& member : metadata.members) {
      if (member.stage != metadata.stage) peers.push_back({member.stage, member.node, member.address});
    }
    network->join(peers);
  }

  void tell(Progress progress) {
    const bool is_leaf = executable->stage().is_leaf();
    if (progress.loss) status.loss = *progress.loss;
    if (progress.accuracy) status.accuracy = progress.accuracy;
    if (is_leaf) progress.loss = status.loss;
    if (network != nullptr) {
      if (is_leaf) {
        status.epoch = progress.epoch;
        status.step = progress.step;
        network->tell_status(status);
      } else if (const auto heard = network->heard_status()) {
        status = *heard;
        progress.loss = heard->loss;
      }
    }
    progress.accuracy = status.accuracy;
    last_progress = progress;
    if (options.on_progress) options.on_progress(progress);
  }

  // The Leaf tells its last loss and accuracy when it leaves, after the others' last step.
  void tell_end() {
    if (last_progress && !executable->stage().is_leaf()) tell(*last_progress);
  }

  NodeReport train(const std::function<void(Trainer&)>& loop) {
    TextFiles files(options.output);
    ProgressCallback status_teller([this](const Progress& progress) { tell(progress); });
    Trainer trainer(*executable, *link, dataset,
                    {.settings = metadata.settings, .data = metadata.data, .logs = {&files, &status_teller}});
    const auto begin = Clock::now();
    const CpuSteal stolen;
    const std::exception_ptr ended = run_loop(trainer, loop);
    is_trained = true;
    NodeReport report;
    report.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    report.stolen = stolen.share();
    report.steps = trainer.steps_done();
    report_times(trainer.step_times(), report);
    report.waiting = trainer.times().waiting;
    if (trained) save(trainer);
    if (ended) std::rethrow_exception(ended);
    return report;
  }

  // What ends the run after this node's last step (a peer that fails, a signal) is returned: it does not undo
  // the training.
  std::exception_ptr run_loop(Trainer& trainer, const std::function<void(Trainer&)>& loop) const {
    const std::int64_t steps =
        metadata.settings.epochs * batches_per_epoch(metadata.settings, metadata.data.train_samples);
    try {
      loop(trainer);
      link->flush();
      return nullptr;
    } catch (...) {
      if (trainer.steps_done() < steps) throw;
      return std::current_exception();
    }
  }

  // A failure is this node's alone: it is told now, and again when all others have ended in good order.
  void save(const Trainer& trainer) {
    // Stems see no sample ids.
    const std::uint64_t digest = trainer.sample_digest();
    std::error_code code;
    const std::vector<std::filesystem::path> elsewhere{options.output, std::filesystem::current_path(code),
                                                       std::filesystem::temp_directory_path(code)};
    try {
      trained->write(executable->state_views(), trainer.steps_done(),
                     digest == 0 ? std::string() : fmt::format("{:016x}", digest), elsewhere);
      is_saved = true;
    } catch (const DataError& error) {
      spdlog::error("{}", error.what());
      not_saved = std::current_exception();
    }
  }

  NodeOptions options;
  const FileLock lock;  // on the plan
  NodeMetadata metadata;
  std::unique_ptr<Link> link;
  ZmqLink* network = nullptr;  // the same link, where there is a network
  std::unique_ptr<Dataset> opened;
  const Dataset* dataset = nullptr;    // the Root's: that one, or the options'
  std::optional<TrainedFile> trained;  // where weights are saved
  bool is_trained = false;             // to the end
  bool is_saved = false;
  std::exception_ptr not_saved;  // why they are not in their place
  std::optional<Executable> executable;
  RunStatus status;  // the newest known
  std::optional<Progress> last_progress;
  std::int64_t transport_bytes = 0;  // of the link's buffers
  std::int64_t floor_bytes = 0;      // anonymous memory of the program itself
};

Node::Node(NodeOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Node::~Node() = default;

const NodeMetadata& Node::metadata() const {
  return impl_->metadata;
}

const MemoryUse& Node::memory() const {
  return impl_->executable->memory();
}

NodeReport Node::run(const std::function<void(Trainer&)>& loop) {
  const auto stop = [&](const std::string& reason) {
    if (impl_->network != nullptr) impl_->network->stop(reason);
  };
  try {
    impl_->join();
    if (impl_->options.on_training) impl_->options.on_training();
    NodeReport report = impl_->train(loop);
    if (impl_->network != nullptr) {
      impl_->network->leave();
      impl_->tell_end();
    }
    // Code is mapped page by page as it is first used: all of it is known only now.
    report.floor_bytes = impl_->floor_bytes + process_memory("RssFile");
    report.peak_bytes = process_memory("VmHWM");
    if (!impl_->not_saved) return report;
  } catch (const Interrupted& interrupted) {
    stop(stop_reason(interrupted.signal()));
    throw;
  } catch (const RunEnded& ended) {
    if (!impl_->is_trained) throw;
    throw RunEnded(fmt::format("this node finished{}, but {}",
                               impl_->is_saved ? " and saved its weights" : "", ended.what()));
  } catch (Error& error) {
    stop(fmt::format("failed: {}", error.what()));
    if (impl_->is_saved) error.add_context("this node finished and saved its weights, but");
    throw;
  } catch (const std::exception& error) {
    stop(fmt::format("failed: {}", error.what()));
    throw;
  }
  std::rethrow_exception(impl_->not_saved);
}

}  // namespace rookery
