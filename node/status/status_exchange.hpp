// Loss and accuracy on every node of a cluster: the Leaf, which computes them, tells the others.
#pragma once

#include <functional>
#include <optional>

#include "node/transport/zmq_link.hpp"
#include "trainer/progress/run_log.hpp"

namespace rookery {

// One thread, the one that trains.
class StatusExchange : public RunLog {
 public:
  // `network`: none in a cluster of one; it outlives the exchange. `on_progress` is told of this node's
  // steps, with the newest loss and accuracy that are known here; it may be empty.
  StatusExchange(ZmqLink* network, bool is_leaf, std::function<void(const Progress&)> on_progress);

  void after_update(const Progress& progress, const BatchResult& /*batch*/) override { tell(progress); }
  void after_validation(const Progress& progress, const BatchResult& /*total*/) override { tell(progress); }
  // After the Leaf has left: it tells its last loss and accuracy then, after the others' last step.
  void tell_end();

 private:
  void tell(Progress progress);

  ZmqLink* network_;
  bool is_leaf_;
  std::function<void(const Progress&)> on_progress_;
  RunStatus status_;  // the newest known
  std::optional<Progress> last_;
};

}  // namespace rookery
