#include "clusterize/planner/planner.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <set>

#include "clusterize/costs/stage_memory.hpp"
#include "clusterize/plan/node_metadata.hpp"
#include "clusterize/planner/make_metadata.hpp"
#include "clusterize/report/report.hpp"
#include "clusterize/simulation/simulation.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/state/initialize.hpp"
#include "tests/clusterize/plan_support.hpp"
#include "trainer/encoding/reconstructions.hpp"

namespace rookery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class PlanOfEqualNodes : public testing::TestWithParam<int> {};

TEST_P(PlanOfEqualNodes, HoldsEveryOpOnceAPerClusterAndAgreesWithItself) {
  const TrainingTask task = cnn_task();
  const Json pool = equal_nodes(GetParam());
  const Planned planned = plan(pool, task);
  for (std::size_t c = 0; c < planned.plan.clusters.size(); ++c) {
    const PlannedCluster& cluster = planned.plan.clusters[c];
    EXPECT_EQ(cluster.id, static_cast<int>(c));
    std::vector<OpId> ops;
    std::int64_t parameters = 0;
    for (const PlannedStage& stage : cluster.stages) {
      ops.insert(ops.end(), stage.ops.begin(), stage.ops.end());
      parameters += stage.parameters;
      EXPECT_GT(stage.parameters, 0);
      EXPECT_GT(stage.prediction.forward_ms, 0);
      EXPECT_GT(stage.prediction.memory.total(), 0);
      EXPECT_LT(stage.prediction.memory.total() + stage.prediction.transport_bytes, 8e9);
    }
    std::vector<OpId> all(task.graph.ops().size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(ops, all);
    EXPECT_EQ(parameters, 16426);
    EXPECT_GT(cluster.predicted_step_ms, 0);
  }
  EXPECT_GT(planned.plan.predicted_samples_per_second, 0);
  EXPECT_LT(planned.plan.predicted_samples_per_second, planned.plan.bound_samples_per_second);
  EXPECT_TRUE(planned.plan.left_out.empty());
}

TEST_P(PlanOfEqualNodes, GivesMetadataWhosePeersAgree) {
  const TrainingTask task = cnn_task();
  const Planned planned = plan(equal_nodes(GetParam()), task);
  std::map<std::pair<int, int>, NodeMetadata> all;
  for (const PlannedCluster& cluster : planned.plan.clusters) {
    for (int stage = 0; stage < static_cast<int>(cluster.stages.size()); ++stage)
      all[{cluster.id, stage}] = make_metadata(task, planned, cluster.id, stage);
  }
  std::set<std::string> kernels;
  for (const auto& [place, node] : all) {
    for (const StageOutput& output : node.outputs) {
      for (const int to : output.to) {
        const auto& inputs = all.at({place.first, to}).inputs;
        const auto input = std::ranges::find(inputs, output.value, &StageInput::value);
        ASSERT_NE(input, inputs.end()) << output.value;
        EXPECT_EQ(input->from, place.second) << output.value;
      }
    }
    for (const auto& [id, ring] : node.rings) {
      ASSERT_EQ(ring.peers.size(), planned.plan.clusters.size());
      for (std::size_t c = 0; c < ring.peers.size(); ++c)
        EXPECT_EQ(all.at({static_cast<int>(c), ring.peers[c].stage}).rings.at(id), ring);
    }
    for (const auto& [op, kernel] : node.kernels) kernels.insert(op);
  }
  EXPECT_EQ(kernels.size(), task.kernels.size());
}

INSTANTIATE_TEST_SUITE_P(Pools, PlanOfEqualNodes, testing::Values(1, 2, 3, 4, 5, 6, 7));

TEST(Plan, OfTheWalkthroughPoolIsRootStemLeafForEverySeed) {
  for (const std::uint64_t seed : {1, 2, 3, 42, 1000}) {
    TrainingSettings settings;
    settings.seed = seed;
    const Planned planned = plan(equal_nodes(3), cnn_task(settings), {.seed = seed});
    ASSERT_EQ(planned.plan.clusters.size(), 1U);
    std::vector<std::string> nodes;
    for (const PlannedStage& stage : planned.plan.clusters[0].stages) nodes.push_back(stage.node);
    EXPECT_THAT(nodes, ElementsAre("node_0", "node_1", "node_2"));
  }
}

TEST(Plan, RingsAreRunsThatLieTogetherInEveryCluster) {
  const TrainingTask task = cnn_task();
  const Planned planned = plan(equal_nodes(7), task);  // a cluster of three and one of four
  std::vector<std::string> in_rings;
  const std::vector<Ring>& rings = planned.plan.rings;
  for (std::size_t r = 0; r < rings.size(); ++r) {
    EXPECT_EQ(rings[r].id, static_cast<int>(r));
    ASSERT_EQ(rings[r].stages.size(), 2U);
    in_rings.insert(in_rings.end(), rings[r].parameters.begin(), rings[r].parameters.end());
    for (const std::string& parameter : rings[r].parameters) {
      for (std::size_t c = 0; c < 2; ++c) {
        const Stage& stage = planned.stages[c][rings[r].stages[c]];
        EXPECT_TRUE(stage.graph.find(parameter)) << parameter;
      }
    }
    EXPECT_TRUE(r == 0 || rings[r].stages != rings[r - 1].stages) << r;  // maximal
  }
  std::vector<std::string> all;
  for (const ValueId id : averaged_values(task.graph)) all.push_back(task.graph.value(id).name);
  EXPECT_THAT(in_rings, testing::UnorderedElementsAreArray(all));
  EXPECT_GE(rings.size(), 4U);
}

TEST(Plan, RareRoundsTakeLittleOfAStep) {
  const TrainingTask often = cnn_task();
  TrainingTask rarely = cnn_task();
  rarely.settings.averaging = {.mode = "parameters", .every = 1000};
  rarely.settings.validate_every = 0;
  const Planned each = plan(equal_nodes(6), often);
  const Planned some = plan(equal_nodes(6), rarely);
  ASSERT_EQ(each.plan.clusters.size(), 2U);
  ASSERT_EQ(some.plan.clusters.size(), 2U);
  EXPECT_EQ(each.plan.rounds_per_step, 1);
  EXPECT_EQ(some.plan.rounds_per_step, 1e-3);
  EXPECT_LT(some.plan.predicted_averaging_ms, 0.01 * each.plan.predicted_averaging_ms);
  EXPECT_EQ(some.plan.predicted_round_ms, each.plan.predicted_round_ms);
  EXPECT_NEAR(some.plan.predicted_averaging_ms, 1e-3 * some.plan.predicted_round_ms, 1e-9);
  EXPECT_GT(some.plan.simulated_samples_per_second, each.plan.simulated_samples_per_second);
  for (const PlannedCluster& cluster : each.plan.clusters)
    for (const PlannedStage& stage : cluster.stages) EXPECT_GT(stage.prediction.averaging_bytes, 0);
}

TEST(Plan, SharesFollowTheSpeedOfClusters) {
  TrainingTask task = cnn_task();
  Json pool = equal_nodes(2);
  pool["0"]["benchmarks"]["gflops"] = 10;
  pool["1"]["benchmarks"]["gflops"] = 40;
  const SearchOptions options{.min_nodes = 1, .clusters = 2};
  const Planned planned = plan(pool, task, options);
  ASSERT_EQ(planned.plan.clusters.size(), 2U);
  const bool is_first_slower = planned.plan.clusters[0].share < planned.plan.clusters[1].share;
  const PlannedCluster& slow = planned.plan.clusters[is_first_slower ? 0 : 1];
  const PlannedCluster& fast = planned.plan.clusters[is_first_slower ? 1 : 0];
  EXPECT_EQ(fast.share, task.settings.batch_size);
  EXPECT_NEAR(static_cast<double>(slow.share), 16, 4);
  EXPECT_EQ(fast.share_step_ms, fast.simulated_step_ms);
  const double hardly = 1 + 1 / 128.0;  // what a sample adds to two batches
  EXPECT_LE(slow.share_step_ms, hardly * fast.share_step_ms);
  const std::size_t at = is_first_slower ? 0 : 1;
  const auto step_ms = [&](std::int64_t samples) {
    return 1e3 * simulated_step_seconds(task, pool_of(pool), planned, at, samples);
  };
  EXPECT_EQ(slow.share_step_ms, step_ms(slow.share));
  EXPECT_GT(step_ms(slow.share + 1), hardly * fast.share_step_ms);
  task.settings.shares = "equal";
  for (const PlannedCluster& cluster : plan(pool, task, options).plan.clusters) EXPECT_EQ(cluster.share, 64);
}

TEST(Plan, ASharedParameterIsItsOwnersOnce) {
  const TrainingTask task = tied_task();
  std::int64_t all = 0;
  for (const ValueId id : task.graph.parameters()) all += task.graph.value(id).type.shape.elements();
  const Planned planned = plan(equal_nodes(6), task);  // two clusters of three
  std::int64_t transport = 0;
  for (const PlannedCluster& cluster : planned.plan.clusters) {
    std::int64_t parameters = 0;
    for (const PlannedStage& stage : cluster.stages) parameters += stage.parameters;
    EXPECT_EQ(parameters, all);
  }
  std::size_t in_rings = 0;
  for (const Ring& ring : planned.plan.rings) in_rings += ring.parameters.size();
  EXPECT_EQ(in_rings, task.graph.parameters().size());
  for (const Stage& stage : planned.stages[0]) {
    Stage alone = stage;
    alone.shared.clear();
    std::int64_t messages = 0;
    for (const SharedParameter& shared : stage.shared) {
      const std::int64_t ways = (shared.from != kNoStage) + (shared.to != kNoStage) +
                                (shared.gradient_to != kNoStage) + (shared.gradient_from != kNoStage);
      messages += 2 * ways *
                  static_cast<std::int64_t>(
                      align_up(stage.graph.value(stage.graph.at(shared.parameter)).type.bytes()));
    }
    EXPECT_EQ(transport_bytes(stage, 64), transport_bytes(alone, 64) + messages);
    transport += messages;
  }
  EXPECT_GT(transport, 0);
}

TEST(Plan, MemoryIsAHardBound) {
  const TrainingTask task = cnn_task();
  const double whole =
      static_cast<double>(plan(equal_nodes(1), task).plan.clusters[0].stages[0].prediction.memory.total()) /
      1e9;
  // None of three nodes holds the whole, all together do.
  const double each = whole * 0.9;
  const Planned planned = plan(equal_nodes(3, each), task);
  ASSERT_EQ(planned.plan.clusters[0].stages.size(), 3U);
  for (const PlannedStage& stage : planned.plan.clusters[0].stages)
    EXPECT_LE(stage.prediction.memory.total() + stage.prediction.transport_bytes, each * 1e9);
  EXPECT_THAT(error_of([&] { plan(equal_nodes(3, whole / 100), task); }),
              AllOf(HasSubstr("cnn_net with batch_size 64 and micro_batches 1 does not fit"),
                    HasSubstr("more or larger machines are needed")));
}

TEST(Plan, MemoryOfAveragingIsFoundRoomFor) {
  TrainingTask task = cnn_task();
  task.settings.averaging = {.mode = "diloco", .every = 100, .fragments = 4, .overlap = 2};
  const auto most_bytes = [](const Planned& planned, bool averages) {
    std::int64_t most = 0;
    for (const PlannedCluster& cluster : planned.plan.clusters) {
      for (const PlannedStage& stage : cluster.stages)
        most = std::max(most,
                        stage.prediction.total_bytes() - (averages ? 0 : stage.prediction.averaging_bytes));
    }
    return most;
  };
  // Each of four nodes has room for the whole model, but not for averaging it.
  const SearchOptions alone{.objective = Objective::kThroughput, .min_nodes = 1};
  const auto nodes = [](int count, double ram) {
    Json pool = equal_nodes(count, ram);
    for (Json& node : pool) node["benchmarks"]["bandwidth"] = 10'000;
    pool["network"] = {{"default", {{"latency_ms", 0.001}, {"bandwidth_mbps", 10'000}}}};
    return pool;
  };
  const Planned roomy = plan(nodes(4, 8), task, alone);
  ASSERT_EQ(roomy.plan.clusters.size(), 4U);
  const double each = static_cast<double>(most_bytes(roomy, false)) / 1e9 * 1.001;
  ASSERT_LT(each * 1e9, static_cast<double>(most_bytes(roomy, true)));
  const Planned fitted = plan(nodes(4, each), task, alone);
  EXPECT_LT(fitted.plan.clusters.size(), 4U);
  EXPECT_LE(static_cast<double>(most_bytes(fitted, true)), each * 1e9);
  // Of two clusters that are asked for there is no plan.
  EXPECT_THAT(error_of([&] {
                plan(nodes(2, each), task,
                     {.objective = Objective::kThroughput, .min_nodes = 1, .clusters = 2});
              }),
              HasSubstr("no plan was found that meets the constraints"));
}

TEST(Plan, AStageRecomputesWhereItFitsOnlySo) {
  // Of eight micro-batches a first stage has several under way: without their activations it takes less.
  TrainingSettings settings;
  settings.batch_size = 1024;
  settings.micro_batches = 8;
  const auto first_stage = [&](const std::string& recompute, double ram) {
    settings.recompute = recompute;
    return plan(equal_nodes(2, ram), cnn_task(settings)).plan.clusters[0].stages[0];
  };
  const PlannedStage plain = first_stage("auto", 8);
  EXPECT_FALSE(plain.recompute);
  const PlannedStage full = first_stage("full", 8);
  EXPECT_TRUE(full.recompute);
  EXPECT_LT(full.prediction.memory.total(), plain.prediction.memory.total());
  EXPECT_DOUBLE_EQ(full.prediction.backward_ms, plain.prediction.backward_ms + plain.prediction.forward_ms);
  const double little = static_cast<double>(full.prediction.total_bytes()) / 1e9;
  EXPECT_TRUE(first_stage("auto", little).recompute);
  EXPECT_THAT(error_of([&] { first_stage("none", little); }),
              AllOf(HasSubstr("there is a plan with batch_size "), HasSubstr("or with recompute \"auto\"")));
  EXPECT_THAT(error_of([&] { first_stage("auto", little / 50); }),
              HasSubstr("does not fit the machines' memory, even with activations recomputed"));
}

TEST(Plan, ItsIdFollowsWhatDecidesTheRun) {
  const auto id = [](const Json& pool, const TrainingSettings& of_run) {
    return plan(pool, cnn_task(of_run)).plan.plan_id;
  };
  const TrainingSettings settings;
  const std::string usual = id(equal_nodes(3), settings);
  EXPECT_EQ(usual.size(), 16U);
  EXPECT_EQ(id(equal_nodes(3), settings), usual);
  TrainingSettings other;
  other.seed = 43;
  EXPECT_NE(id(equal_nodes(3), other), usual);
  EXPECT_NE(id(equal_nodes(2), settings), usual);
  Json moved = equal_nodes(3);
  moved["1"]["IP"] = "10.0.0.7:8080";
  EXPECT_NE(id(moved, settings), usual);
  Json unreachable = equal_nodes(3);
  unreachable["1"]["reachable"] = true;
  EXPECT_EQ(id(unreachable, settings), usual);
  unreachable["1"]["reachable"] = false;
  EXPECT_NE(id(unreachable, settings), usual);
  Json threads = equal_nodes(3);
  threads["1"]["threads"] = 1;
  EXPECT_EQ(id(threads, settings), usual);
  threads["1"]["threads"] = 2;
  EXPECT_NE(id(threads, settings), usual);
}

TEST(Report, SaysWhatEveryNodeDoes) {
  const TrainingTask task = cnn_task();
  const std::string text = describe_plan(task, plan(equal_nodes(3), task));
  EXPECT_THAT(text, HasSubstr("Node(0) Cluster(0) Address(host8080:8080) Role(root)\n"
                              "  Ring IDs({0: 'conv2d_1.weight'})\n"
                              "  Address to parameter({'host8080:8080': 'conv2d_1.weight'})\n"));
  EXPECT_THAT(text, HasSubstr("Node(2) Cluster(0) Address(host8082:8082) Role(leaf)"));
  EXPECT_THAT(text, HasSubstr("predicted"));
}

TEST(Report, SaysWhereAMachineHasSeveralStages) {
  const TrainingTask task = cnn_task();
  Planned planned = plan(equal_nodes(3), task);
  EXPECT_THAT(describe_plan(task, planned), Not(HasSubstr("further stage")));
  planned.plan.clusters[0].stages[2].node = "node_0.1";
  const std::string text = describe_plan(task, planned);
  EXPECT_THAT(text, HasSubstr("Node(0.1) Cluster(0) Address(host8082:8082) Role(leaf)"));
  EXPECT_THAT(text, HasSubstr("node_0.1 is a further stage of node_0: the provider of a machine trains all"));
}

// In predictions, the simulator and memory.
TEST(Plan, CountsTheBytesThatTravel) {
  const TrainingTask exact = cnn_task();
  TrainingSettings settings;
  settings.transport = {.activations = "fp16", .gradients = "bf16"};
  const TrainingTask rounded = cnn_task(settings);
  const ModelCosts whole = model_costs(exact, pool_of(equal_nodes(3)));
  const ModelCosts half = model_costs(rounded, pool_of(equal_nodes(3)));
  ASSERT_EQ(half.count(), whole.count());
  for (int i = 1; i < whole.count(); ++i) {
    EXPECT_EQ(half.segments[i].gradient_bytes, whole.segments[i].gradient_bytes / 2);
    EXPECT_LT(half.segments[i].activation_bytes, whole.segments[i].activation_bytes);
    EXPECT_GT(half.segments[i].activation_bytes, whole.segments[i].activation_bytes / 2) << "labels";
  }
  const Planned before = plan(equal_nodes(3), exact);
  const Planned after = plan(equal_nodes(3), rounded);
  EXPECT_NE(after.plan.plan_id, before.plan.plan_id);
  EXPECT_LT(after.plan.clusters[0].predicted_step_ms, before.plan.clusters[0].predicted_step_ms);
  EXPECT_LT(after.plan.clusters[0].simulated_step_ms, before.plan.clusters[0].simulated_step_ms);
  const Stage& root = after.stages[0][0];
  EXPECT_EQ(after.plan.clusters[0].stages[0].prediction.transport_bytes,
            transport_bytes(root, 64, {}, 1, encoding_of(rounded)));
  EXPECT_LT(transport_bytes(root, 64, {}, 1, encoding_of(rounded)), transport_bytes(root, 64));
}

// Of differences those after the first epoch, and what both ends keep of samples.
TEST(Plan, CountsWhatIsKeptOfSamples) {
  TrainingSettings settings;
  settings.transport.activations = "int4";
  const TrainingTask rounded = cnn_task(settings);
  settings.transport.activations = kInt4Delta;
  const TrainingTask differences = cnn_task(settings);
  const Planned before = plan(equal_nodes(3), rounded);
  const Planned after = plan(equal_nodes(3), differences);
  ASSERT_EQ(after.stages[0].size(), before.stages[0].size());
  EXPECT_NE(after.plan.plan_id, before.plan.plan_id);
  for (std::size_t i = 0; i < after.stages[0].size(); ++i) {
    const Stage& stage = after.stages[0][i];
    const std::int64_t bytes = after.plan.clusters[0].stages[i].prediction.transport_bytes;
    EXPECT_EQ(bytes, transport_bytes(stage, 64, {}, 1, encoding_of(differences)));
    const std::int64_t kept = Reconstructions::bytes(stage, 64, encoding_of(differences), 0);
    EXPECT_GT(kept, 0);
    EXPECT_GT(bytes, kept + transport_bytes(stage, 64, {}, 1, encoding_of(rounded))) << "room for fp16";
  }
  for (std::size_t i = 0; i < after.plan.clusters[0].links.size(); ++i) {
    const auto bytes = [&](const Planned& planned) {
      return static_cast<double>(planned.plan.clusters[0].links[i].activation_bytes);
    };
    EXPECT_NEAR(bytes(after) / bytes(before), 1, 0.2) << "blocks end with samples";
  }
}

// Halves of its work send each other much, its last layer is sent little.
TEST(Plan, CutsWhereThereIsMemoryForWhatIsKeptOfSamples) {
  constexpr std::int64_t kMuch = 512;
  constexpr std::int64_t kLittle = 8;
  const auto task_of = [](const char* activations, std::int64_t samples) {
    GraphBuilder b;
    ValueId x = b.input("input", {64});
    for (const char* layer : {"a", "b", "c", "d"}) x = b.linear(layer, x, kMuch);
    TrainingTask task{.graph = b.finish(b.linear("last", b.linear("narrow", x, kLittle), 10)),
                      .settings = {},
                      .data = {.train_samples = samples}};
    task.settings.transport.activations = activations;
    task.settings.micro_batches = 8;
    add_loss(task.graph, task.settings.loss);
    task.kernels = choose_kernels(task.graph, 8);
    return task;
  };
  const auto slow_nodes = [](double ram) {
    Json pool = equal_nodes(2, ram);
    for (Json& node : pool) node["benchmarks"]["gflops"] = 1;
    return pool;
  };
  constexpr double kRam = 0.1;
  const SearchOptions two{.min_nodes = 2};
  const auto expect_kept = [&](std::int64_t samples, std::int64_t numbers) {
    const TrainingTask task = task_of(kInt8Delta, samples);
    const Planned planned = plan(slow_nodes(kRam), task, two);
    ASSERT_EQ(planned.stages[0].size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_LE(static_cast<double>(planned.plan.clusters[0].stages[i].prediction.total_bytes()), kRam * 1e9);
      EXPECT_EQ(Reconstructions::bytes(planned.stages[0][i], 8, encoding_of(task), 0),
                samples * (4 * numbers + 8));
    }
  };
  expect_kept(1000, kMuch);
  expect_kept(1'000'000, kLittle);
  EXPECT_EQ(plan(slow_nodes(kRam), task_of("int8", 1'000'000), two).stages[0].size(), 2U);
  EXPECT_THAT(error_of([&] { plan(slow_nodes(kRam), task_of(kInt8Delta, 10'000'000), two); }),
              HasSubstr("no plan was found that meets the constraints"));
  constexpr double kHalf = 0.012;  // of what the model takes, and more
  EXPECT_EQ(plan(slow_nodes(kHalf), task_of("int8", 10'000'000)).stages[0].size(), 2U);
  EXPECT_THAT(error_of([&] { plan(slow_nodes(kHalf), task_of(kInt8Delta, 10'000'000)); }),
              AllOf(HasSubstr("does not fit"), HasSubstr("and what transport keeps of samples")));
}

// Where clipping is all that stages would wait for, there is a copy of what an update changes.
TEST(Plan, UpdatesAheadOfTheNormHaveTheirMemory) {
  const auto kept = [](const TrainingTask& task, const Planned& planned) {
    std::vector<std::int64_t> bytes;
    for (const PlannedCluster& cluster : planned.plan.clusters) {
      for (const PlannedStage& stage : cluster.stages) bytes.push_back(stage.prediction.memory.kept);
    }
    const NodeMetadata metadata = make_metadata(task, planned, 0, 0);
    EXPECT_EQ(metadata.settings.schedule.updates_ahead, bytes.front() > 0);
    return bytes;
  };
  TrainingTask task = cnn_task();
  task.settings.micro_batches = 4;
  task.settings.schedule.name = "zb";
  EXPECT_THAT(kept(task, plan(equal_nodes(3), task)), testing::Each(0));
  task.settings.clip_gradient_norm = 1;
  const std::vector<std::int64_t> ahead = kept(task, plan(equal_nodes(3), task));
  EXPECT_THAT(ahead, ElementsAre(testing::Gt(0), testing::Gt(0), 0))
      << "the last stage knows the norm in time";
  TrainingTask tied = tied_task();
  tied.settings = task.settings;
  EXPECT_THAT(kept(tied, plan(equal_nodes(3), tied)), testing::Each(0));
}

TEST(Plan, PredictsItsStepAsTheSumOfItsParts) {
  for (const int micro_batches : {1, 4}) {
    for (const bool is_tied : {false, true}) {
      TrainingTask task = is_tied ? tied_task() : cnn_task();
      task.settings.micro_batches = micro_batches;
      task.settings.clip_gradient_norm = 1;
      const Planned planned = plan(equal_nodes(3), task);
      const PlannedCluster& cluster = planned.plan.clusters[0];
      EXPECT_NEAR(cluster.round_trip_ms + (micro_batches - 1) * cluster.period_ms + cluster.update_ms +
                      cluster.exchange_ms,
                  cluster.predicted_step_ms, 1e-9 * cluster.predicted_step_ms);
      EXPECT_GE(cluster.exchange_ms, 0.5 - 1e-9);  // at least a latency for the norm
      double trip = 0;
      double update = 0;
      for (const PlannedStage& stage : cluster.stages) {
        trip += stage.prediction.forward_ms + stage.prediction.backward_ms + 2 * stage.prediction.send_ms;
        update = std::max(update, stage.prediction.update_ms);
      }
      EXPECT_LE(cluster.round_trip_ms, trip);  // labels have no gradients
      EXPECT_GE(cluster.round_trip_ms, 0.8 * trip);
      EXPECT_NEAR(cluster.update_ms, update, 1e-12);
      ASSERT_GE(cluster.links.size(), 2U);
      EXPECT_EQ(cluster.links[0].from, 0);
      EXPECT_EQ(cluster.links[0].to, 1);
      EXPECT_NEAR(cluster.links[0].activation_ms,
                  0.5 + static_cast<double>(cluster.links[0].activation_bytes) / 1250, 1e-9);
    }
  }
}

}  // namespace
}  // namespace rookery
