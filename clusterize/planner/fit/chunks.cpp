#include "clusterize/planner/fit/chunks.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "clusterize/costs/step_parts.hpp"
#include "clusterize/order/cut_refinement.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/schedule/machine_order.hpp"

namespace rookery {
namespace {

using RamOfChunks = std::vector<std::vector<double>>;  // GB, by machine and chunk

// How a cut is kept within a machine's memory. The cut itself knows one stage at a time: what its others take
// is seen when all are cut.
enum class Split : std::uint8_t { kWhole, kBySlots, kEvenly };

class Divider {
 public:
  Divider(const Fit& searched, const ModelCosts& costs)
      : machines_(searched.model->pool()), searched_(searched.grouping), costs_(costs) {
    for (const std::vector<int>& cluster : searched_.clusters)
      placements_.push_back(placement_on(costs.schedule, static_cast<int>(cluster.size())));
  }

  Fit run() {
    check_reachable();
    for (const Split split : {Split::kWhole, Split::kBySlots, Split::kEvenly}) {
      if (std::optional<Fit> found = divided(split)) return *std::move(found);
    }
    throw ConfigError(fmt::format(
        "schedule \"{}\": the stages of a machine do not fit its memory together: use a smaller "
        "batch_size, more micro_batches, fewer clusters (--clusters), or schedule \"{}\", which gives it one",
        costs_.schedule.name, searched_costs(costs_).schedule.name));
  }

 private:
  // All members of a cluster connect to each other, the stages of a machine too.
  void check_reachable() const {
    for (std::size_t c = 0; c < placements_.size(); ++c) {
      for (const int machine : searched_.clusters[c]) {
        if (placements_[c].chunks == 1 || machines_.node(machine).reachable) continue;
        throw ConfigError(
            fmt::format("schedule \"{}\": node_{} would have several stages, which others have to reach, and "
                        "it is not reachable: leave it out (--exclude {}), or use schedule \"{}\"",
                        costs_.schedule.name, machines_.node(machine).id, machines_.node(machine).id,
                        searched_costs(costs_).schedule.name));
      }
    }
  }

  // Nothing where no cut fits.
  std::optional<Fit> divided(Split split) const {
    std::shared_ptr<const MemoryModel> memory = costs_.memory;
    constexpr int kMostRounds = 4;  // of learning what stages take
    for (int round = 0; round < kMostRounds; ++round) {
      Fit fit = fit_on(ram_by(split), memory);
      const std::vector<PlacedCluster> placed = fit.model->placed(fit.grouping.clusters);
      if (!std::ranges::all_of(placed, [](const PlacedCluster& each) { return each.cost->fits(); }))
        return std::nullopt;
      fit.throughput = balanced(*fit.model, fit.grouping.clusters);
      const std::vector<PlacedStage> stages =
          placed_stages(*fit.costs, fit.grouping.clusters, fit.throughput.cuts, *fit.pool);
      if (!memory->is_exact()) memory = memory->refine(ranges_of(stages));
      if (const auto ram = ram_as_needed(stages, *fit.pool, *memory)) return fitted(fit, *ram, memory);
      if (costs_.memory->is_exact()) return std::nullopt;
    }
    return std::nullopt;
  }

  Throughput balanced(const ThroughputModel& model, const Clusters& clusters) const {
    std::vector<const StagePartition*> cuts = refined_throughput(model, clusters).cuts;
    for (std::size_t c = 0; c < cuts.size(); ++c)
      if (placements_[c].chunks > 1) cuts[c] = balanced_cut(model, clusters[c], cuts[c]);
    return model.throughput(clusters, std::move(cuts));
  }

  // A cut is found for stages that have a machine each. Its boundaries are moved as long as steps become
  // shorter by that, in which the busiest machine counts with all its stages.
  const StagePartition* balanced_cut(const ThroughputModel& model, const std::vector<int>& members,
                                     const StagePartition* found) const {
    const auto seconds = [&](const StagePartition& cut) {
      return step_parts(model, members, cut, costs_.schedule).step;
    };
    const StagePartition* best = found;
    double shortest = seconds(*best);
    for (const StagePartition* before = nullptr; before != best;) {
      before = best;
      for (std::size_t stage = 1; stage < members.size(); ++stage) {
        for (const int move : {-1, 1}) {
          std::vector<int> begins = best->begins;
          begins[stage] += move;
          const int end = stage + 1 < begins.size() ? begins[stage + 1] : model.costs().count();
          if (begins[stage] <= begins[stage - 1] || begins[stage] >= end) continue;
          const StagePartition* const cut = model.cut(members, begins);
          if (cut == nullptr || cut->empty_stages > best->empty_stages || seconds(*cut) >= shortest) continue;
          best = cut;
          shortest = seconds(*cut);
        }
      }
    }
    return best;
  }

  // The same cuts, where each stage has the memory that was found for it.
  std::optional<Fit> fitted(const Fit& found, const RamOfChunks& ram,
                            const std::shared_ptr<const MemoryModel>& memory) const {
    Fit fit = fit_on(ram, memory);
    std::vector<const StagePartition*> cuts;
    for (std::size_t c = 0; c < fit.grouping.clusters.size(); ++c) {
      cuts.push_back(fit.model->cut(fit.grouping.clusters[c], found.throughput.cuts[c]->begins));
      if (cuts.back() == nullptr) return std::nullopt;
    }
    fit.throughput = fit.model->throughput(fit.grouping.clusters, std::move(cuts));
    return fit;
  }

  Fit fit_on(const RamOfChunks& ram, const std::shared_ptr<const MemoryModel>& memory) const {
    Fit fit{.pool = std::make_unique<NodePool>(machines_.divided(ram)),
            .costs = std::make_unique<ModelCosts>(costs_),
            .grouping = {.clusters = clusters_on(ram), .left_out = {}},
            .memory = memory};
    fit.costs->memory = memory;
    fit.costs->chunks = 1;  // each is a node by now
    fit.model = std::make_unique<ThroughputModel>(*fit.pool, *fit.costs);
    return fit;
  }

  Clusters clusters_on(const RamOfChunks& ram) const {
    std::vector<int> first(ram.size() + 1, 0);  // nodes, by machine
    for (std::size_t i = 0; i < ram.size(); ++i) first[i + 1] = first[i] + static_cast<int>(ram[i].size());
    Clusters clusters;
    for (std::size_t c = 0; c < placements_.size(); ++c) {
      std::vector<int>& members = clusters.emplace_back();
      for (int stage = 0; stage < placements_[c].stages(); ++stage) {
        const int machine = searched_.clusters[c][static_cast<std::size_t>(placements_[c].machine_of(stage))];
        members.push_back(first[static_cast<std::size_t>(machine)] + placements_[c].chunk_of(stage));
      }
    }
    return clusters;
  }

  RamOfChunks ram_by(Split split) const {
    RamOfChunks ram;
    for (const PoolNode& node : machines_.nodes()) ram.push_back({node.ram_gb});
    for (std::size_t c = 0; c < placements_.size(); ++c) {
      for (int place = 0; place < placements_[c].machines; ++place) {
        std::vector<double>& own = ram[static_cast<std::size_t>(searched_.clusters[c][place])];
        own = shares(placements_[c], place, split, own.front());
      }
    }
    return ram;
  }

  std::vector<double> shares(const StagePlacement& placement, int machine, Split split, double ram_gb) const {
    std::vector<double> parts;
    double all = 0;
    for (int chunk = 0; chunk < placement.chunks; ++chunk) {
      const int stage = placement.stage_of(machine, chunk);
      parts.push_back(split == Split::kBySlots ? costs_.slots(stage, placement.stages()) : 1);
      all += parts.back();
    }
    for (double& part : parts) part = split == Split::kWhole ? ram_gb : ram_gb * part / all;
    return parts;
  }

  static std::vector<StageRange> ranges_of(const std::vector<PlacedStage>& stages) {
    std::vector<StageRange> ranges;
    for (const PlacedStage& stage : stages) ranges.push_back(stage.range);
    return ranges;
  }

  // Nothing where a machine has too little.
  std::optional<RamOfChunks> ram_as_needed(const std::vector<PlacedStage>& stages, const NodePool& pool,
                                           const MemoryModel& memory) const {
    std::map<int, double> of_machine;
    for (const PlacedStage& stage : stages)
      of_machine[pool.machine(stage.node)] += static_cast<double>(memory.bytes(stage.range));
    RamOfChunks ram = ram_by(Split::kWhole);
    for (const PlacedStage& stage : stages) {
      const auto machine = static_cast<std::size_t>(pool.machine(stage.node));
      const double all = of_machine[pool.machine(stage.node)];
      if (all > 1e9 * machines_.node(pool.machine(stage.node)).ram_gb) return std::nullopt;
      ram[machine][static_cast<std::size_t>(pool.node(stage.node).chunk)] *=
          static_cast<double>(memory.bytes(stage.range)) / all;
    }
    return ram;
  }

  const NodePool& machines_;  // of the caller, as are the next two
  const Grouping& searched_;
  const ModelCosts& costs_;
  std::vector<StagePlacement> placements_;  // by cluster
};

}  // namespace

ModelCosts searched_costs(ModelCosts costs) {
  if (!has_chunks(costs.schedule)) return costs;
  costs.schedule = {.name = delays_weights(costs.schedule) ? "zb" : "1f1b"};
  return costs;
}

Fit with_chunks(const Fit& searched, const ModelCosts& costs) {
  return Divider(searched, costs).run();
}

}  // namespace rookery
