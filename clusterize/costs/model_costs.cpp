#include "clusterize/costs/model_costs.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "clusterize/costs/stage_memory.hpp"
#include "models/graph/passes/cost.hpp"
#include "models/graph/stage.hpp"
#include "trainer/encoding/edge_encoding.hpp"
#include "trainer/encoding/reconstructions.hpp"
#include "trainer/schedule/machine_order.hpp"
#include "trainer/trainer.hpp"

namespace rookery {
namespace {

// Estimates, in operations of a machine at its sustained speed (SegmentWork): a machine that does
// kFlopsPerByte of them while it moves a byte of memory, and kFlopsPerOp while it begins an op.
constexpr double kFlopsPerByte = 4;
constexpr double kFlopsPerOp = 40e3;
// An optimizer reads and writes a parameter, its gradient and what it remembers of them.
constexpr double kUpdateBytesPerByte = 7;
// Where it predicts weights it writes these, too. (Stages that share parameters, and those of several
// clusters, predict in a pass of its own, Arenas::predict(), which is not counted.)
constexpr double kPredictionBytesPerByte = 1;

double estimated(double flops, double bytes) {
  return bytes == 0 ? 0 : std::max(flops, kFlopsPerByte * bytes) + kFlopsPerOp;
}

// Of one op and one micro-batch, and of its parameters' update.
SegmentWork estimated_work(const OpCost& cost) {
  return {.forward_flops = estimated(cost.forward_flops, cost.forward_bytes),
          .backward_flops = estimated(cost.backward_flops, cost.backward_bytes),
          .update_flops = kFlopsPerByte * kUpdateBytesPerByte * static_cast<double>(cost.parameter_bytes)};
}

SegmentWork measured_work(const ThreadTimes& times, const std::string& op, const OpCost& cost) {
  const OpSeconds& seconds = times.ops.at(op);
  const double speed = 1e9 * times.gflops;
  return {.forward_flops = speed * seconds.forward,
          .backward_flops = speed * (seconds.backward_inputs + seconds.backward_weights),
          .update_flops = speed * times.update_seconds_per_byte * static_cast<double>(cost.parameter_bytes)};
}

// Those of averaged_values() that are no parameters.
std::set<ValueId> averaged_buffers(const Graph& graph) {
  const std::vector<ValueId> values = averaged_values(graph);
  std::set<ValueId> buffers(values.begin(), values.end());
  std::erase_if(buffers, [&](ValueId id) { return graph.value(id).kind == ValueKind::kParameter; });
  return buffers;
}

std::vector<Segment> make_segments(const Graph& graph, const std::vector<OpCost>& costs,
                                   const OpProfile* profile) {
  const ThreadTimes* const times = profile == nullptr ? nullptr : &profile->threads.begin()->second;
  std::vector<OpId> begins = cut_positions(graph);
  begins.insert(begins.begin(), 0);
  std::vector<Segment> segments;
  std::set<ValueId> buffers = averaged_buffers(graph);
  for (std::size_t op = 0; op < costs.size(); ++op) {
    if (segments.size() < begins.size() && begins[segments.size()] == static_cast<OpId>(op))
      segments.push_back({.begin = static_cast<OpId>(op)});
    Segment& segment = segments.back();
    segment.work +=
        times == nullptr ? estimated_work(costs[op]) : measured_work(*times, graph.ops()[op].name, costs[op]);
    segment.parameters += costs[op].parameters;
    segment.parameter_bytes += costs[op].parameter_bytes;
    for (const ValueId input : graph.ops()[op].inputs)
      if (buffers.erase(input) > 0) segment.averaged_buffers += graph.value(input).type.shape.elements();
  }
  if (times != nullptr) segments.front().work.forward_flops += 1e9 * times->gflops * profile->input_seconds;
  return segments;
}

std::size_t segment_of(OpId op, const std::vector<Segment>& segments) {
  const auto next = std::ranges::upper_bound(segments, op, {}, &Segment::begin);
  return static_cast<std::size_t>(next - segments.begin()) - 1;
}

ByThreads<ThreadCosts> measured_costs(const Graph& graph, const std::vector<OpCost>& costs,
                                      const std::vector<Segment>& segments, const OpProfile& profile) {
  ByThreads<ThreadCosts> all;
  for (const auto& [threads, times] : profile.threads) {
    ThreadCosts& of = all[threads];
    of.gflops = times.gflops;
    of.work.resize(segments.size());
    of.work.front().forward_flops = 1e9 * times.gflops * profile.input_seconds;
    for (std::size_t op = 0; op < costs.size(); ++op) {
      of.work[segment_of(static_cast<OpId>(op), segments)] +=
          measured_work(times, graph.ops()[op].name, costs[op]);
    }
  }
  return all;
}

std::vector<SharedSegments> shared_bytes(const Graph& graph, const std::vector<Segment>& segments) {
  std::map<ValueId, std::set<int>> users;
  for (std::size_t op = 0; op < graph.ops().size(); ++op) {
    for (const ValueId input : graph.ops()[op].inputs) {
      if (input == kNoValue || graph.value(input).kind != ValueKind::kParameter) continue;
      users[input].insert(static_cast<int>(segment_of(static_cast<OpId>(op), segments)));
    }
  }
  std::vector<SharedSegments> shared;
  for (const auto& [parameter, of_it] : users) {
    if (of_it.size() < 2) continue;
    shared.push_back({.segments = {of_it.begin(), of_it.end()},
                      .bytes = static_cast<double>(graph.value(parameter).type.bytes())});
  }
  return shared;
}

// Adds every value to the boundaries between its producer and its last user: those before these segments,
// which `hop_to` says more of.
template <typename HopTo>
void add_boundaries(const Graph& graph, std::int64_t micro_batch, const EdgeEncoding& encoding,
                    const HopTo& hop_to, std::vector<Segment>& segments) {
  const std::map<ValueId, std::vector<OpId>> have_gradients = gradient_users(graph);
  std::map<ValueId, std::size_t> last_user;
  for (std::size_t op = 0; op < graph.ops().size(); ++op) {
    for (const ValueId input : graph.ops()[op].inputs) {
      if (input != kNoValue) last_user[input] = segment_of(static_cast<OpId>(op), segments);
    }
  }
  const std::vector<TensorType> types = graph.types(micro_batch);
  for (const auto& [id, last] : last_user) {
    const Value& value = graph.value(id);
    if (value.kind != ValueKind::kInput && value.kind != ValueKind::kActivation) continue;
    const std::size_t first = value.producer == kNoOp ? 0 : segment_of(value.producer, segments);
    for (std::size_t segment = first + 1; segment <= last; ++segment) {
      const std::optional<Hop> hop = hop_to(static_cast<int>(segment));
      if (!hop) continue;
      segments[segment].activation_bytes +=
          static_cast<double>(encoding.activation_type(*hop, value.name, types[id]).bytes());
      if (have_gradients.contains(id))
        segments[segment].gradient_bytes +=
            static_cast<double>(encoding.gradient_type(*hop, types[id]).bytes());
    }
  }
}

// Boundaries go of which the pieces beside them have little of the model's work and parameters, and which
// much would have to cross.
void merge_small(std::vector<Segment>& segments, int most) {
  double work = 0;
  double bytes = 1;
  for (const Segment& segment : segments) {
    work += segment.work.forward_flops + segment.work.backward_flops;
    bytes += static_cast<double>(segment.parameter_bytes);
  }
  const auto share = [&](const Segment& segment) {
    return (segment.work.forward_flops + segment.work.backward_flops) / work +
           static_cast<double>(segment.parameter_bytes) / bytes;
  };
  while (std::ssize(segments) > most) {
    std::size_t least = 1;
    double least_loss = std::numeric_limits<double>::infinity();
    for (std::size_t i = 1; i < segments.size(); ++i) {
      const double loss = (share(segments[i - 1]) + share(segments[i])) / (1 + segments[i].activation_bytes);
      if (loss >= least_loss) continue;
      least = i;
      least_loss = loss;
    }
    Segment& into = segments[least - 1];
    const Segment& merged = segments[least];
    into.work += merged.work;
    into.parameters += merged.parameters;
    into.parameter_bytes += merged.parameter_bytes;
    into.averaged_buffers += merged.averaged_buffers;
    segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(least));
  }
}

}  // namespace

double ModelCosts::assumed_gflops(int node_threads) const {
  if (threads.empty()) return kAssumedGflops * node_threads;
  return of_threads(threads, node_threads).gflops;
}

double ModelCosts::update_factor(int stage, int stages) const {
  const bool predicts = mean_staleness(schedule, stage, stages, micro_batches) > 0;
  return predicts ? 1 + kPredictionBytesPerByte / kUpdateBytesPerByte : 1;
}

std::vector<SegmentWork> ModelCosts::work(int node_threads) const {
  if (!threads.empty()) return of_threads(threads, node_threads).work;
  std::vector<SegmentWork> own;
  for (const Segment& segment : segments) own.push_back(segment.work);
  return own;
}

ModelCosts model_costs(const Graph& graph, const TrainingSettings& settings, const DataSizes& data,
                       const KernelChoice& kernels, const OpProfile* profile, int most_segments,
                       const std::set<int>& threads, int clusters) {
  const std::int64_t micro_batch = micro_batch_sizes(settings, settings.batch_size).front();
  ModelCosts costs{
      .name = settings.model,
      .segments = make_segments(graph, op_costs(graph, micro_batch), profile),
      .batch_size = settings.batch_size,
      .micro_batches = static_cast<int>(std::ssize(micro_batch_sizes(settings, settings.batch_size))),
      .schedule = settings.schedule,
      .chunks = placement_on(settings.schedule, 2).chunks};
  add_boundaries(
      graph, micro_batch, {settings.transport, input_names(graph)},
      [](int /*segment*/) { return std::optional(Hop()); }, costs.segments);
  merge_small(costs.segments, most_segments);
  if (profile != nullptr)
    costs.threads = measured_costs(graph, op_costs(graph, micro_batch), costs.segments, *profile);
  costs.shared = shared_bytes(graph, costs.segments);
  costs.waits_for_norm = settings.clip_gradient_norm.has_value() && !may_update_ahead(settings, graph);
  costs.averaging = averaging_costs(graph, settings, data);
  std::vector<OpId> begins;
  for (const Segment& segment : costs.segments) begins.push_back(segment.begin);
  costs.may_recompute = settings.recompute != "none";
  costs.must_recompute = settings.recompute == "full";
  costs.memory = stage_memory(graph, begins, settings, data, kernels, threads, clusters);
  costs.most_kept_bytes = static_cast<double>(
      Reconstructions::most_bytes(graph, settings.batch_size, {settings.transport, {}, data.train_samples}));
  costs.trained = [graph, settings, data, kernels, most_segments, threads,
                   clusters](const Training& training) {
    TrainingSettings other = settings;
    other.batch_size = training.batch_size;
    other.micro_batches = training.micro_batches;
    other.recompute = training.recompute;
    other.schedule.max_staleness = training.max_staleness;
    other.schedule.in_flight = training.in_flight;
    other.schedule.name = training.schedule;
    return model_costs(graph, other, data, kernels, nullptr, most_segments, threads, clusters);
  };
  return costs;
}

ModelCosts with_transport(ModelCosts costs, const Graph& graph, const TrainingSettings& settings,
                          const std::vector<int>& begins, const EdgeEncoding& encoding) {
  const auto hop_to = [&](int segment) -> std::optional<Hop> {
    const auto found = std::ranges::find(begins, segment);
    if (found == begins.end()) return std::nullopt;
    const auto stage = static_cast<int>(found - begins.begin());
    return Hop{stage - 1, stage};
  };
  for (const int begin : begins) {
    costs.segments[begin].activation_bytes = 0;
    costs.segments[begin].gradient_bytes = 0;
  }
  add_boundaries(graph, micro_batch_sizes(settings, settings.batch_size).front(), encoding, hop_to,
                 costs.segments);
  return costs;
}

}  // namespace rookery
