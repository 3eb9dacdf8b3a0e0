#include "clusterize/simulation/step_simulation.hpp"

#include <algorithm>
#include <queue>
#include <set>
#include <tuple>

#include "models/base/check.hpp"

namespace rookery {
namespace {

class StepSimulator {
 public:
  StepSimulator(const StepProgram& program, const Slowdown& slowdown, StepTrace* trace)
      : program_(program),
        slowdown_(slowdown),
        trace_(trace),
        network_(program.connections, program.ways),
        next_(program.programs.size(), 0),
        arrived_(program.messages.size(), false),
        waiting_(program.messages.size(), kNobody),
        machines_(program.machine_of.empty() ? 0 : program.machines()) {
    for (const int node : program.node_of)
      run_.computing.resize(std::max(run_.computing.size(), static_cast<std::size_t>(node) + 1), 0);
  }

  StepRun run() {
    for (std::size_t process = 0; process < next_.size(); ++process) advance(process);
    while (true) {
      const double departure = network_.next();
      const double event = events_.empty() ? FlowNetwork::kNever : events_.top().time;
      now_ = std::min(departure, event);
      if (now_ == FlowNetwork::kNever) break;
      if (departure <= event) {
        depart();
      } else {
        const Event happened = events_.top();
        events_.pop();
        happened.is_arrival ? arrive(happened.index) : finish(happened.index);
      }
    }
    for (std::size_t process = 0; process < next_.size(); ++process)
      ROOKERY_CHECK(next_[process] == program_.programs[process].size(), "process {} waits for ever",
                    process);
    return std::move(run_);
  }

 private:
  static constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

  // A message arrives, or a process has computed.
  struct Event {
    double time;
    std::int64_t order;  // of events at the same time
    bool is_arrival;
    std::size_t index;
    bool operator>(const Event& other) const {
      return std::tie(time, order) > std::tie(other.time, other.order);
    }
  };

  // That several processes share.
  struct Machine {
    std::set<std::size_t> ready;  // processes that have come to a computation
    bool computes = false;
    std::size_t turn = 0;  // in its order
  };

  // Until it computes, waits or is done.
  void advance(std::size_t process) {
    const std::vector<Instruction>& program = program_.programs[process];
    while (next_[process] < program.size()) {
      const Instruction& instruction = program[next_[process]];
      const auto message = static_cast<std::size_t>(instruction.message);
      if (instruction.kind == Instruction::Kind::kReceive && !arrived_[message]) {
        waiting_[message] = process;
        return;
      }
      if (instruction.kind == Instruction::Kind::kCompute) {
        wait_for_turn(process);
        return;
      }
      ++next_[process];
      if (instruction.kind == Instruction::Kind::kSend)
        network_.send(now_, program_.messages[message].way, instruction.message,
                      program_.messages[message].bytes);
    }
    run_.seconds = std::max(run_.seconds, now_);
  }

  void wait_for_turn(std::size_t process) {
    if (machines_.empty()) return compute(process);
    const int machine = program_.machine_of[process];
    machines_[machine].ready.insert(process);
    give_turn(machine);
  }

  // To the first process that may have it.
  void give_turn(int number) {
    Machine& machine = machines_[number];
    if (machine.computes) return;
    const std::vector<int>& order = program_.orders[number];
    for (const std::size_t process : machine.ready) {
      const Work work = program_.programs[process][next_[process]].work;
      if (!order.empty() && work != Work::kUpdate) {
        if (machine.turn == order.size() || order[machine.turn] != static_cast<int>(process)) continue;
        ++machine.turn;
      }
      machine.ready.erase(process);
      machine.computes = true;
      return compute(process);
    }
  }

  // What it has computed.
  void finish(std::size_t process) {
    if (machines_.empty()) return advance(process);
    const int machine = program_.machine_of[process];
    machines_[machine].computes = false;
    advance(process);
    give_turn(machine);
  }

  void compute(std::size_t process) {
    const std::size_t at = next_[process]++;
    const Instruction& instruction = program_.programs[process][at];
    const int node = program_.node_of[process];
    const double seconds = instruction.seconds * (slowdown_ ? slowdown_(node, instruction.batch) : 1);
    const double end = now_ + seconds;
    run_.computing[node] += seconds;
    events_.push({end, order_++, false, process});
    if (instruction.work == Work::kUpdate) {
      const auto batch = static_cast<std::size_t>(instruction.micro_batch);
      if (run_.updated.size() <= batch) run_.updated.resize(batch + 1, 0);
      run_.updated[batch] = std::max(run_.updated[batch], end);
    }
    if (trace_ != nullptr)
      trace_->work.push_back({node, instruction.work, instruction.micro_batch, now_, end, process, at});
  }

  void depart() {
    const FlowNetwork::Departure departure = network_.take();
    const double arrival = now_ + program_.ways[departure.way].latency;
    events_.push({arrival, order_++, true, static_cast<std::size_t>(departure.message)});
    if (trace_ != nullptr) trace_->messages.push_back({departure.message, departure.begin, now_, arrival});
  }

  void arrive(std::size_t message) {
    arrived_[message] = true;
    if (waiting_[message] != kNobody) advance(waiting_[message]);
  }

  const StepProgram& program_;  // of the caller, as are the next two
  const Slowdown& slowdown_;
  StepTrace* const trace_;
  FlowNetwork network_;
  std::vector<std::size_t> next_;     // instruction, by process
  std::vector<bool> arrived_;         // by message
  std::vector<std::size_t> waiting_;  // process, by message
  std::vector<Machine> machines_;     // none where each process has its own
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::int64_t order_ = 0;
  double now_ = 0;
  StepRun run_;
};

}  // namespace

StepRun simulate_step(const StepProgram& program, const Slowdown& slowdown, StepTrace* trace) {
  return StepSimulator(program, slowdown, trace).run();
}

}  // namespace rookery
