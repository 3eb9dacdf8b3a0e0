#include "clusterize/simulation/critical_path.hpp"

#include <algorithm>

namespace rookery {
namespace {

// An instruction of a process; the process itself is known.
struct Sender {
  std::size_t process = 0;
  std::size_t instruction = 0;
};

// When every process came to each of its instructions, and to its end; by process.
using Times = std::vector<std::vector<double>>;

Times times_of(const StepProgram& program, const std::vector<double>& arrivals) {
  Times times;
  for (const std::vector<Instruction>& instructions : program.programs) {
    std::vector<double>& reached = times.emplace_back();
    double now = 0;
    for (const Instruction& instruction : instructions) {
      reached.push_back(now);
      if (instruction.kind == Instruction::Kind::kCompute) now += instruction.seconds;
      if (instruction.kind == Instruction::Kind::kReceive) now = std::max(now, arrivals[instruction.message]);
    }
    reached.push_back(now);
  }
  return times;
}

std::vector<Sender> senders_of(const StepProgram& program) {
  std::vector<Sender> senders(program.messages.size());
  for (std::size_t process = 0; process < program.programs.size(); ++process) {
    const std::vector<Instruction>& instructions = program.programs[process];
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      if (instructions[i].kind == Instruction::Kind::kSend) senders[instructions[i].message] = {process, i};
    }
  }
  return senders;
}

}  // namespace

std::vector<PathPart> critical_path(const StepProgram& program, const StepTrace& trace) {
  std::vector<double> arrivals(program.messages.size(), 0);
  for (const MessageSpan& span : trace.messages) arrivals[span.message] = span.arrive;
  const Times times = times_of(program, arrivals);
  const std::vector<Sender> senders = senders_of(program);
  const auto last =
      std::ranges::max_element(times, {}, [](const std::vector<double>& reached) { return reached.back(); });
  std::vector<PathPart> path;
  if (last == times.end()) return path;

  auto process = static_cast<std::size_t>(last - times.begin());
  std::size_t at = program.programs[process].size();
  while (at > 0) {
    const Instruction& instruction = program.programs[process][--at];
    const double begin = times[process][at];
    const double end = times[process][at + 1];
    if (end <= begin) continue;
    if (instruction.kind == Instruction::Kind::kCompute) {
      path.push_back(
          {.node = program.node_of[process], .work = instruction.work, .begin = begin, .end = end});
      continue;
    }
    // It waited for this message: what the sender did until then decides.
    const Sender& sender = senders[instruction.message];
    process = sender.process;
    at = sender.instruction;
    path.push_back({.message = instruction.message, .begin = times[process][at], .end = end});
  }
  return path;
}

}  // namespace rookery
