#include "trainer/checkpoint/checkpoint_part.hpp"

#include <gtest/gtest.h>

namespace rookery {
namespace {

TEST(PartName, IsPlanStageAndStages) {
  const std::optional<PartName> name = part_name("node_data/checkpoints/12/0a9f_3_of_12.safetensors");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->plan_id, "0a9f");
  EXPECT_EQ(name->stage, 3);
  EXPECT_EQ(name->stages, 12);
  EXPECT_TRUE(part_name("a_000000_of_999999.safetensors"));
}

TEST(PartName, OtherFilesHaveNone) {
  for (const char* file : {"",
                           ".safetensors",
                           "0a9f",
                           "_0_of_1.safetensors",
                           "0A9F_0_of_1.safetensors",
                           "0a9f_0_of_1.safetensor",
                           "0a9f_0_of_1",
                           "0a9f_0_of_1.safetensors.tmp",
                           "0a9f_cluster_1_0_of_2.safetensors",
                           "0a9f_2_of_2.safetensors",
                           "0a9f_-1_of_2.safetensors",
                           "0a9f_+1_of_2.safetensors",
                           "0a9f_1_of_-2.safetensors",
                           "0a9f__of_2.safetensors",
                           "0a9f_1_of_.safetensors",
                           "0a9f_1_of_1000000.safetensors",
                           "0a9f_0000001_of_2.safetensors",
                           "0a9f_1_of_2_of_3.safetensors",
                           "0a9f_1.0_of_2.safetensors",
                           "0a9f_ 1_of_2.safetensors",
                           "0a9f 1_of_2.safetensors",
                           "0a9f_1_of_2.0.safetensors"})
    EXPECT_FALSE(part_name(file)) << file;
}

}  // namespace
}  // namespace rookery
