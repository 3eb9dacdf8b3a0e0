#include "trainer/checkpoint/checkpoint_part.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/files/file_calls.hpp"
#include "tests/support/failing_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace rookery {
namespace {

class WrittenPart : public testing::Test {
 protected:
  void write() const { write_part(part_path(owner_, 12), owner_, {}, {}); }

  ScratchFolder folder_;
  CheckpointOwner owner_{.node_data = folder_.path(), .plan_id = "0a9f", .stage = 0, .stages = 2};
};

// A power cut after it is written finds the part by its name.
TEST_F(WrittenPart, IsFlushedThenNamedThenItsFoldersAre) {
  const FileCalls real = file_calls();
  std::vector<std::string> calls;
  file_calls().fsync = [&](int descriptor) {
    struct stat status {};
    EXPECT_EQ(::fstat(descriptor, &status), 0);
    calls.emplace_back(S_ISDIR(status.st_mode) ? "flush folder" : "flush file");
    return real.fsync(descriptor);
  };
  file_calls().rename = [&](const char* from, const char* to) {
    calls.emplace_back("name");
    return real.rename(from, to);
  };
  write();
  file_calls() = real;
  EXPECT_THAT(calls,
              testing::ElementsAre("flush file", "name", "flush folder", "flush folder", "flush folder"));
}

TEST_F(WrittenPart, IsNoneWhereItsFolderCannotBeFlushed) {
  FailingFiles files;
  files.descriptors = 1;  // the file's
  EXPECT_THROW(write(), DataError);
  files.descriptors = FailingFiles::kUnlimited;
  EXPECT_NO_THROW(write());
}

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
