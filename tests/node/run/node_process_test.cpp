#include "node/run/node_process.hpp"
#include "tests/support/repository.hpp"

#include <gtest/gtest.h>

namespace rookery {
namespace {

TrainingSettings with_data(const std::string& name) {
  TrainingSettings settings;
  settings.data = name;
  return settings;
}

TEST(NodeProcess, ReadsADataSetOnce) {
  NodeProcess process({.name = "node_0", .node_data = kNodeData});
  const Dataset* digits = &process.dataset(with_data("digits"));
  EXPECT_EQ(digits->size(), 1797);
  TrainingSettings others = with_data("digits");
  others.epochs = 7;
  EXPECT_EQ(&process.dataset(others), digits);
  EXPECT_EQ(process.dataset(with_data("sorter")).size(), 729);
}

TEST(NodeProcess, ADataSetThatIsGivenIsTheOne) {
  const auto sorter = open_dataset("sorter", kNodeData);
  NodeProcess process({.name = "node_0", .node_data = "/nowhere", .dataset = sorter.get()});
  EXPECT_EQ(&process.dataset(with_data("own:digits")), sorter.get());
}

TEST(NodeProcess, ADataSetThatIsGivenIsAugmentedAsTheSettingsSay) {
  const auto shapes = open_dataset("shapes?samples=10&image_size=8", kNodeData);
  NodeProcess process({.name = "node_0", .node_data = "/nowhere", .dataset = shapes.get()});
  TrainingSettings settings = with_data("own:shapes");
  settings.augment = {{"resize", {{"size", {5}}}}};
  const Dataset& resized = process.dataset(settings);
  EXPECT_EQ(resized.size(), 10);
  EXPECT_EQ(resized.tensors().at("input").shape, (Shape{kBatch, 3, 5, 5}));
  EXPECT_EQ(&process.dataset(settings), &resized);
}

}  // namespace
}  // namespace rookery
