#include "trainer/checkpoint/reshard/sync.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/on_all_nodes.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/repository.hpp"
#include "trainer/averager.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

// Clusters of cnn_net cut into so many stages, in each of which every tensor of the state has other bytes.
class Sync : public testing::Test {
 protected:
  Sync() { add_loss(model_, settings_.loss, target_types(*digits_, settings_.loss)); }

  using State = std::map<std::string, Tensor>;
  struct Node {
    State state;  // afterwards, with an outer optimizer's momentum and a residual of its own
    std::optional<RunState> run;
    std::string error;
  };

  static std::byte byte_of(const std::string& name, int cluster) {
    return static_cast<std::byte>(std::hash<std::string>()(name) % 50 +
                                  50 * static_cast<std::size_t>(cluster));
  }

  Node begin(Agreement& agreement, int cluster, const std::vector<StartChoice>& choices) {
    const Stage stage =
        cut(model_, even_cuts(plain_, settings_.loss, *digits_, static_cast<std::size_t>(agreement.stages())))
            .at(agreement.stage());
    StateDict initial;
    for (const auto& ids : {stage.graph.parameters(), stage.graph.buffers()})
      for (const ValueId id : ids)
        initial.emplace(stage.graph.value(id).name, initial_.at(stage.graph.value(id).name).clone());
    const KernelChoice kernels =
        choose_kernels(model_, micro_batch_sizes(settings_, settings_.batch_size).front());
    const CompileOptions options =
        compile_options(settings_, {1000, 100}, agreement.stage(), agreement.stages(), kernels);
    Executable executable(stage, options, std::move(initial));
    std::map<std::string, Tensor> outer;
    for (const ValueId id : stage.owned_parameters()) {
      const Value& value = stage.graph.value(id);
      outer.emplace(averaging_key("momentum", value.name), Tensor(value.type));
      outer.emplace(residual_key(value.name), Tensor(value.type));
    }
    FurtherState further;
    for (auto& [name, tensor] : outer) further.emplace(name, tensor.view());
    std::map<std::string, TensorView> all = executable.training_state();
    all.insert(further.begin(), further.end());
    for (auto& [name, view] : all) std::ranges::fill(view.bytes(), byte_of(name, cluster));
    Node node;
    try {
      std::optional<RunState> own;
      if (cluster == 0) own = RunState{.step = 40, .epoch = 2, .base_rate = 0.5};
      node.run = sync_state(choices, cluster, own, executable, agreement, further);
    } catch (const Error& error) {
      node.error = error.what();
    }
    for (const auto& [name, view] : all) {
      Tensor tensor(view.type);
      copy(view, tensor.view());
      node.state.emplace(name, std::move(tensor));
    }
    return node;
  }

  OfNodes<Node> begin_all(const std::vector<int>& stages, const std::vector<StartChoice>& choices) {
    return on_all<Node>(
        stages, [&](Agreement& agreement, int cluster) { return begin(agreement, cluster, choices); });
  }

  static void expect_state_of(const Node& node, const std::string& kind, int cluster,
                              const auto& is_of_kind) {
    for (const auto& [name, tensor] : node.state) {
      if (!is_of_kind(name)) continue;
      const auto bytes = tensor.view().bytes();
      EXPECT_TRUE(std::ranges::all_of(
          bytes, [&, name = name](std::byte byte) { return byte == byte_of(name, cluster); }))
          << kind << ": " << name << " is not that of cluster " << cluster;
    }
  }
  static void expect_states_of(const Node& node, int values, int optimizer, int residuals) {
    expect_state_of(node, "optimizer", optimizer,
                    [](const std::string& name) { return is_optimizer_key(name); });
    expect_state_of(node, "residual", residuals,
                    [](const std::string& name) { return is_residual_key(name); });
    expect_state_of(node, "value", values, [](const std::string& name) {
      return !is_optimizer_key(name) && !is_residual_key(name);
    });
  }

  const std::unique_ptr<Dataset> digits_ = open_dataset("digits", kNodeData);
  TrainingSettings settings_;
  const Graph plain_ = cnn_net();
  Graph model_ = cnn_net();
  const StateDict initial_ = initial_state(model_, 1);
};

TEST_F(Sync, BringsTheStateOfAnotherClusterToAnyCut) {
  const StartChoice all{.sync_from = 0, .sync_optimizer = true};
  const StartChoice values{.sync_from = 0};
  for (const std::vector<int>& stages : {std::vector<int>{1, 3, 2}, {3, 1, 2}, {2, 3, 1}}) {
    const auto nodes = begin_all(stages, {StartChoice(), values, all});
    for (std::size_t cluster = 0; cluster < nodes.size(); ++cluster) {
      for (const Node& node : nodes[cluster]) {
        EXPECT_EQ(node.error, "");
        ASSERT_TRUE(node.run);
        EXPECT_EQ(node.run->step, 40);
        EXPECT_EQ(node.run->epoch, 2);
        EXPECT_EQ(node.run->base_rate, 0.5);
        const int own = static_cast<int>(cluster);
        expect_states_of(node, 0, cluster == 1 ? 1 : 0, own);
      }
    }
  }
}

TEST_F(Sync, OfAClusterThatBeginsAtTheFirstStep) {
  const auto nodes = begin_all({2, 1}, {{.sync_from = 1}, StartChoice()});
  for (const Node& node : nodes[0]) {
    EXPECT_EQ(node.run, std::nullopt);
    expect_states_of(node, 1, 0, 0);
  }
}

}  // namespace
}  // namespace rookery
