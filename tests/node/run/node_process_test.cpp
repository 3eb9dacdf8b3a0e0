#include "node/run/node_process.hpp"

#include <gtest/gtest.h>

namespace rookery {
namespace {

const std::filesystem::path kNodeData = ROOKERY_SOURCE_DIR "/node_data";

TEST(NodeProcess, ReadsADataSetOnce) {
  NodeProcess process({.name = "node_0", .node_data = kNodeData});
  const Dataset* digits = &process.dataset("digits");
  EXPECT_EQ(digits->size(), 1797);
  EXPECT_EQ(&process.dataset("digits"), digits);
  EXPECT_EQ(process.dataset("sorter").size(), 729);
}

TEST(NodeProcess, ADataSetThatIsGivenIsTheOne) {
  const auto sorter = open_dataset("sorter", kNodeData);
  NodeProcess process({.name = "node_0", .node_data = "/nowhere", .dataset = sorter.get()});
  EXPECT_EQ(&process.dataset("own:digits"), sorter.get());
}

}  // namespace
}  // namespace rookery
