#include "clusterize/simulation/step_program.hpp"

#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "models/base/check.hpp"
#include "models/tensor/exact_sum.hpp"

namespace rookery {
namespace {

std::int64_t bytes_in(const TensorType& type) {
  return static_cast<std::int64_t>(type.bytes());
}

bool waits_for_norm(const PipelineModel& model) {
  return model.clips_gradients && is_synchronous(model.schedule) && !model.schedule.updates_ahead;
}

class Builder {
 public:
  Builder(const PipelineModel& model, std::span<const std::int64_t> sizes, const EdgeEncoding& encoding)
      : model_(model), sizes_(sizes), placement_(model.placement()) {
    add_machines();
    for (int from = 0; from < placement_.machines; ++from)
      for (int to = 0; to < placement_.machines; ++to) add_way(from, to);
    for (int stage = 0; stage < count(); ++stage) made_.node_of.push_back(stage);
    made_.programs.resize(model.stages.size());
    for (const std::int64_t size : sizes) {
      if (!routes_.contains(size)) routes_[size] = stage_routes(model.stages, size, encoding);
    }
  }

  StepProgram training(int batches) {
    const auto micro_batches = static_cast<int>(sizes_.size());
    for (const Stage& stage : model_.stages) {
      Schedule schedule(model_.schedule, stage.index, stage.count, batches, micro_batches);
      while (const std::optional<Action> action = schedule.next()) add(stage, *action, micro_batches);
      add_shared_values(stage, batches);
    }
    for (std::size_t machine = 0; machine < made_.orders.size(); ++machine) {
      const std::vector<StageAction> order =
          machine_order(model_.schedule, static_cast<int>(machine), count(), micro_batches);
      for (int batch = 0; batch < batches; ++batch)
        for (const StageAction& action : order) made_.orders[machine].push_back(action.stage);
    }
    return std::move(made_);
  }

  StepProgram validation() {
    for (const Stage& stage : model_.stages) {
      for (int i = 0; i < std::ssize(sizes_); ++i) add_forward(stage.index, i);
    }
    return std::move(made_);
  }

 private:
  int count() const { return static_cast<int>(model_.stages.size()); }
  std::int64_t size_of(int micro_batch) const {
    return sizes_[static_cast<std::size_t>(micro_batch) % sizes_.size()];
  }

  void add_machines() {
    const auto machines = static_cast<std::size_t>(placement_.machines);
    for (std::size_t machine = 0; machine < machines; ++machine)
      made_.connections.push_back(model_.work[machine].bytes_per_second);
    if (placement_.chunks == 1) return;
    made_.orders.resize(machines);
    for (int stage = 0; stage < count(); ++stage) made_.machine_of.push_back(placement_.machine_of(stage));
    for (int machine = 0; machine < placement_.machines; ++machine)
      made_.connections.push_back(model_.links[machine][placement_.stage_of(machine, 1)].bytes_per_second);
  }

  // From machine to machine, for all of their stages.
  void add_way(int from, int to) {
    const bool is_within = placement_.chunks > 1 && from == to;
    FlowWay way = model_.links[placement_.stage_of(from, 0)][placement_.stage_of(to, is_within ? 1 : 0)];
    way.from = is_within ? placement_.machines + from : from;
    way.to = is_within ? way.from : to;
    made_.ways.push_back(way);
  }

  // As StageWorker does.
  void add(const Stage& stage, const Action& action, int micro_batches) {
    const auto batch = static_cast<int>(action.batch);
    const int number = batch * micro_batches + action.micro_batch;
    batch_ = batch;
    switch (action.kind) {
      case ActionKind::kForward:
        if (batch > 0 && action.micro_batch == 0) add_shared_values(stage, batch);
        add_forward(stage.index, number);
        break;
      case ActionKind::kBackwardInputs:
        add_backward_inputs(stage.index, number);
        break;
      case ActionKind::kBackwardWeights:
        compute(stage.index, Work::kBackwardWeights, number, pure_backward(stage.index) / 2);
        break;
      case ActionKind::kUpdate:
        add_update(stage, batch);
        break;
    }
  }

  const StageRoutes& routes(int stage, int micro_batch) const {
    return routes_.at(size_of(micro_batch))[stage];
  }

  // Without what is computed once more.
  double pure_backward(int stage) const {
    const StageWork& work = model_.work[stage];
    return work.backward - (work.recompute ? work.forward : 0);
  }

  void add_forward(int stage, int micro_batch) {
    for (int from = 0; from < stage; ++from) {
      if (routes(from, micro_batch).activation_bytes[stage] > 0)
        receive(MessageUse::kActivation, from, stage, micro_batch);
    }
    compute(stage, Work::kForward, micro_batch, model_.work[stage].forward);
    for (int to = stage + 1; to < count(); ++to) {
      const std::int64_t bytes = routes(stage, micro_batch).activation_bytes[to];
      if (bytes > 0) send(MessageUse::kActivation, stage, to, micro_batch, bytes);
    }
  }

  void add_backward_inputs(int stage, int micro_batch) {
    for (int from = stage + 1; from < count(); ++from) {
      if (routes(from, micro_batch).gradient_bytes[stage] > 0)
        receive(MessageUse::kGradient, from, stage, micro_batch);
    }
    compute(stage, Work::kBackwardInputs, micro_batch,
            model_.work[stage].backward - pure_backward(stage) / 2);
    for (int to = 0; to < stage; ++to) {
      const std::int64_t bytes = routes(stage, micro_batch).gradient_bytes[to];
      if (bytes > 0) send(MessageUse::kGradient, stage, to, micro_batch, bytes);
    }
  }

  // See StepExchange.
  void add_update(const Stage& stage, int batch) {
    const int own = stage.index;
    for (const SharedParameter& shared : stage.shared) {
      const int number = number_of(shared.parameter, batch);
      if (shared.gradient_from != kNoStage)
        receive(MessageUse::kSharedGradient, shared.gradient_from, own, number);
      if (shared.gradient_to != kNoStage)
        send(MessageUse::kSharedGradient, own, shared.gradient_to, number, bytes_of(stage, shared));
    }
    if (waits_for_norm(model_)) add_norm(stage);
    compute(own, Work::kUpdate, batch, model_.work[own].update, false);
  }

  void add_shared_values(const Stage& stage, int before_batch) {
    const int own = stage.index;
    for (const SharedParameter& shared : stage.shared) {
      const int number = number_of(shared.parameter, before_batch);
      if (shared.from != kNoStage) receive(MessageUse::kSharedValue, shared.from, own, number);
      if (shared.to != kNoStage)
        send(MessageUse::kSharedValue, own, shared.to, number, bytes_of(stage, shared));
    }
  }

  static std::int64_t bytes_of(const Stage& stage, const SharedParameter& shared) {
    return bytes_in(stage.graph.value(stage.graph.at(shared.parameter)).type);
  }

  void add_norm(const Stage& stage) {
    constexpr auto kBytes = static_cast<std::int64_t>(sizeof(ExactSum::Words));
    for (int to = 0; to < stage.count; ++to)
      if (to != stage.index) send(MessageUse::kNorm, stage.index, to, 0, kBytes);
    for (int from = 0; from < stage.count; ++from)
      if (from != stage.index) receive(MessageUse::kNorm, from, stage.index, 0);
  }

  int number_of(const std::string& parameter, int batch) {
    return numbers_.emplace(std::pair(parameter, batch), static_cast<int>(numbers_.size())).first->second;
  }

  void compute(int stage, Work work, int micro_batch, double seconds, bool per_sample = true) {
    if (per_sample)
      seconds *= static_cast<double>(size_of(micro_batch)) / static_cast<double>(model_.micro_batch);
    made_.programs[stage].push_back({.kind = Instruction::Kind::kCompute,
                                     .work = work,
                                     .batch = batch_,
                                     .micro_batch = micro_batch,
                                     .seconds = seconds});
  }

  void send(MessageUse use, int from, int to, int number, std::int64_t bytes) {
    const int id = message(use, from, to, number);
    made_.messages[id].bytes = static_cast<double>(bytes);
    made_.programs[from].push_back({.kind = Instruction::Kind::kSend, .micro_batch = number, .message = id});
  }

  void receive(MessageUse use, int from, int to, int number) {
    const int id = message(use, from, to, number);
    made_.programs[to].push_back({.kind = Instruction::Kind::kReceive, .micro_batch = number, .message = id});
  }

  int message(MessageUse use, int from, int to, int number) {
    const auto [known, is_new] =
        ids_.emplace(std::tuple(use, from, to, number), static_cast<int>(made_.messages.size()));
    if (is_new) {
      const auto way = static_cast<std::size_t>(placement_.machine_of(from) * placement_.machines +
                                                placement_.machine_of(to));
      made_.messages.push_back({.from = from, .to = to, .way = way, .use = use, .micro_batch = number});
    }
    return known->second;
  }

  const PipelineModel& model_;  // both of the caller
  const std::span<const std::int64_t> sizes_;
  const StagePlacement placement_;
  std::map<std::int64_t, std::vector<StageRoutes>> routes_;  // by size of a micro-batch
  std::map<std::tuple<MessageUse, int, int, int>, int> ids_;
  int batch_ = 0;                                       // whose actions are added
  std::map<std::pair<std::string, int>, int> numbers_;  // of shared parameters, batch by batch
  StepProgram made_;
};

}  // namespace

std::vector<StageRoutes> stage_routes(std::span<const Stage> stages, std::int64_t micro_batch,
                                      const EdgeEncoding& encoding) {
  const StageRoutes none{std::vector<std::int64_t>(stages.size()), std::vector<std::int64_t>(stages.size())};
  std::vector<StageRoutes> routes(stages.size(), none);
  for (const Stage& stage : stages) {
    StageRoutes& own = routes[stage.index];
    const std::vector<TensorType> types = stage.graph.types(micro_batch);
    for (const StageOutput& output : stage.outputs) {
      const TensorType& type = types[stage.graph.at(output.value)];
      for (const int to : output.to)
        own.activation_bytes[to] += bytes_in(encoding.activation_type({stage.index, to}, output.value, type));
    }
    for (const StageInput& input : stage.inputs) {
      if (input.gradient_to == kNoStage) continue;
      const TensorType& type = types[stage.graph.at(input.value)];
      own.gradient_bytes[input.gradient_to] +=
          bytes_in(encoding.gradient_type({stage.index, input.gradient_to}, type));
    }
  }
  return routes;
}

StepProgram training_program(const PipelineModel& model, std::span<const std::int64_t> sizes, int batches) {
  ROOKERY_CHECK(batches == 1 || steps_overlap(model), "{} batches at once that wait for each other", batches);
  return Builder(model, sizes, model.encoding).training(batches);
}

bool steps_overlap(const PipelineModel& model) {
  if (!is_synchronous(model.schedule)) return true;
  return delays_weights(model.schedule) && !waits_for_norm(model);
}

StepProgram validation_pass(const PipelineModel& model, std::span<const std::int64_t> sizes) {
  return Builder(model, sizes, model.encoding.first_of_deltas()).validation();
}

StepProgram averaging_round(std::span<const AverageRing> rings, std::vector<double> connections,
                            const std::function<FlowWay(int from, int to)>& way) {
  StepProgram made{.connections = std::move(connections)};
  std::map<std::pair<int, int>, std::size_t> ways;  // by connections
  const auto way_of = [&](int from, int to) {
    const FlowWay between = way(from, to);
    const auto [known, is_new] = ways.emplace(std::pair(between.from, between.to), made.ways.size());
    if (is_new) made.ways.push_back(between);
    return known->second;
  };
  for (const AverageRing& ring : rings) {
    const auto members = static_cast<int>(ring.nodes.size());
    const int rounds = 2 * (members - 1);
    const auto first = static_cast<int>(made.messages.size());
    for (int member = 0; member < members; ++member) {
      const int before = (member + members - 1) % members;
      const int own = ring.nodes[member];
      const int next = ring.nodes[(member + 1) % members];
      std::vector<Instruction> program;
      for (int round = 0; round < rounds; ++round) {
        made.messages.push_back({.from = own,
                                 .to = next,
                                 .way = way_of(own, next),
                                 .bytes = ring.bytes / members,
                                 .use = MessageUse::kAverage,
                                 .micro_batch = round});
        program.push_back({.kind = Instruction::Kind::kSend, .message = first + member * rounds + round});
        program.push_back({.kind = Instruction::Kind::kReceive, .message = first + before * rounds + round});
      }
      made.node_of.push_back(own);
      made.programs.push_back(std::move(program));
    }
  }
  return made;
}

}  // namespace rookery
