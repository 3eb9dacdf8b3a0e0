#include "node/machine.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "clusterize/plan/node_metadata.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "node/sockets/address.hpp"
#include "trainer/schedule/compute_turn.hpp"
#include "trainer/schedule/machine_order.hpp"

namespace rookery {
namespace {

// Nodes are made one after the other, so that each finds what memory the earlier ones take, and run when all
// are there.
class Beginning {
 public:
  explicit Beginning(std::size_t nodes) : nodes_(nodes) {}

  void await_turn(std::size_t node) {
    wait([&] { return made_ == node; });
  }
  void made() {
    {
      const std::scoped_lock lock(mutex_);
      ++made_;
    }
    changed_.notify_all();
    wait([&] { return made_ == nodes_; });
  }
  void fail() {
    const std::scoped_lock lock(mutex_);
    has_failed_ = true;
    changed_.notify_all();
  }

 private:
  template <typename Condition>
  void wait(Condition condition) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return has_failed_ || condition(); });
    if (!condition()) throw RunEnded("another stage of this machine has failed");
  }

  const std::size_t nodes_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::size_t made_ = 0;
  bool has_failed_ = false;
};

// As far from where the first node listens as their addresses are in the plan; any free port where that does.
std::string listen_address(const std::string& of_first, const NodeMetadata& first,
                           const NodeMetadata& other) {
  Address listen = Address::parse(of_first);
  if (listen.port == 0) return of_first;
  constexpr int kLast = 65'535;
  const int port = listen.port + Address::parse(other.address).port - Address::parse(first.address).port;
  if (port < 1 || port > kLast)
    throw ConfigError(fmt::format("--listen {}: {} would listen at port {}, which there is none of", of_first,
                                  other.node, port));
  listen.port = static_cast<std::uint16_t>(port);
  return listen.to_string();
}

std::vector<NodeOptions> options_of(const std::vector<std::string>& nodes, const NodeOptions& first,
                                    const NodeMetadata& own) {
  std::vector<NodeOptions> all;
  for (const std::string& name : nodes) {
    NodeOptions options = first;
    options.name = name;
    if (name != first.name && !first.listen.empty()) {
      options.listen = listen_address(first.listen, own, read_metadata(first.node_data, name));
    }
    if (name != first.name && !first.trace.empty()) {
      const std::string chunk = name.substr(first.name.size());  // ".1"
      options.trace.replace_filename(first.trace.stem().string() + chunk + first.trace.extension().string());
    }
    all.push_back(std::move(options));
  }
  return all;
}

// The first that is no consequence of another's, if there is one.
void rethrow_cause(const std::vector<std::exception_ptr>& failures) {
  std::exception_ptr first;
  for (const std::exception_ptr& failure : failures) {
    if (!failure) continue;
    if (!first) first = failure;
    try {
      std::rethrow_exception(failure);
    } catch (const RunEnded&) {  // it may be
    } catch (...) {
      throw;
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace

void run_nodes(const std::vector<std::string>& nodes, const NodeOptions& first, const RunNode& run) {
  if (nodes.size() == 1) return run(first, [] {});
  const NodeMetadata own = read_metadata(first.node_data, first.name);
  std::vector<NodeOptions> all = options_of(nodes, first, own);
  const StagePlacement placement = placement_of(own.settings.schedule, own.stages);
  ComputeTurn turn(own.settings.schedule, placement.machine_of(own.stage), own.stages);
  Beginning beginning(all.size());
  std::vector<std::exception_ptr> failures(all.size());
  const auto run_one = [&](std::size_t node) {
    try {
      beginning.await_turn(node);
      all[node].turn = &turn;
      run(all[node], [&] { beginning.made(); });
    } catch (...) {
      failures[node] = std::current_exception();
      beginning.fail();
      turn.abandon();
    }
  };
  {
    std::vector<std::jthread> threads;
    try {
      for (std::size_t node = 1; node < all.size(); ++node) threads.emplace_back(run_one, node);
    } catch (...) {  // before those that there are, and wait for the others, are waited for
      beginning.fail();
      throw;
    }
    run_one(0);
  }
  rethrow_cause(failures);
}

}  // namespace rookery
