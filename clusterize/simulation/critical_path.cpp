#include "clusterize/simulation/critical_path.hpp"

#include <algorithm>

namespace rookery {
namespace {

// An instruction of a process.
struct Place {
  std::size_t process = 0;
  std::size_t instruction = 0;
};

// What became of an instruction.
struct Passage {
  double reached = 0;  // by its process
  double begin = 0;    // of a computation, for which the machine may have had no turn before
  double end = 0;
  Place before;  // the last computation on its machine before it
};

using Passages = std::vector<std::vector<Passage>>;  // by process and instruction

// With what is known of computations.
Passages computed(const StepProgram& program, const StepTrace& trace) {
  Passages passages;
  for (const std::vector<Instruction>& instructions : program.programs)
    passages.emplace_back(instructions.size());
  std::vector<Place> last(program.machines());
  for (const WorkSpan& span : trace.work) {
    Place& before = last[static_cast<std::size_t>(program.machine(span.process))];
    passages[span.process][span.instruction] = {.begin = span.begin, .end = span.end, .before = before};
    before = {span.process, span.instruction};
  }
  return passages;
}

Passages passages_of(const StepProgram& program, const StepTrace& trace) {
  std::vector<double> arrivals(program.messages.size(), 0);
  for (const MessageSpan& span : trace.messages) arrivals[span.message] = span.arrive;
  Passages passages = computed(program, trace);
  for (std::size_t process = 0; process < passages.size(); ++process) {
    double now = 0;
    for (std::size_t i = 0; i < passages[process].size(); ++i) {
      const Instruction& instruction = program.programs[process][i];
      Passage& passage = passages[process][i];
      passage.reached = now;
      if (instruction.kind == Instruction::Kind::kSend) passage.end = now;
      if (instruction.kind == Instruction::Kind::kReceive)
        passage.end = std::max(now, arrivals[instruction.message]);
      now = passage.end;
    }
  }
  return passages;
}

std::vector<Place> senders_of(const StepProgram& program) {
  std::vector<Place> senders(program.messages.size());
  for (std::size_t process = 0; process < program.programs.size(); ++process) {
    const std::vector<Instruction>& instructions = program.programs[process];
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      if (instructions[i].kind == Instruction::Kind::kSend) senders[instructions[i].message] = {process, i};
    }
  }
  return senders;
}

// Behind all instructions of the process that is done last.
Place end_of(const Passages& passages) {
  const auto last = std::ranges::max_element(
      passages, {}, [](const std::vector<Passage>& own) { return own.empty() ? 0 : own.back().end; });
  if (last == passages.end()) return {};
  return {static_cast<std::size_t>(last - passages.begin()), last->size()};
}

}  // namespace

std::vector<PathPart> critical_path(const StepProgram& program, const StepTrace& trace) {
  const Passages passages = passages_of(program, trace);
  const std::vector<Place> senders = senders_of(program);
  std::vector<PathPart> path;
  Place at = end_of(passages);
  while (at.instruction > 0) {
    --at.instruction;
    const Instruction& instruction = program.programs[at.process][at.instruction];
    const Passage& passage = passages[at.process][at.instruction];
    if (instruction.kind == Instruction::Kind::kCompute) {
      if (passage.end > passage.begin) {
        path.push_back({.node = program.node_of[at.process],
                        .work = instruction.work,
                        .begin = passage.begin,
                        .end = passage.end});
      }
      // It waited for its turn: what its machine did until then decides.
      if (passage.begin > passage.reached) at = {passage.before.process, passage.before.instruction + 1};
    } else if (passage.end > passage.reached) {
      // It waited for this message: what the sender did until then decides.
      at = senders[static_cast<std::size_t>(instruction.message)];
      path.push_back({.message = instruction.message,
                      .begin = passages[at.process][at.instruction].reached,
                      .end = passage.end});
    }
  }
  return path;
}

}  // namespace rookery
