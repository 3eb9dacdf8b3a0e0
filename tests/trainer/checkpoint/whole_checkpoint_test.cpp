#include "trainer/checkpoint/whole_checkpoint.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <string>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/runtime/executable.hpp"
#include "tests/support/captured_log.hpp"
#include "tests/support/damaged_file.hpp"
#include "tests/support/tied_model.hpp"
#include "tests/trainer/checkpoint/checkpointed_run.hpp"

namespace rookery {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kPlan = "0123456789abcdef";
constexpr const char* kOtherPlan = "fedcba9876543210";

// Checkpoints of three stages that have one parameter each, and share another; all elements of stage k's
// tensors are the step and a tenth of k.
class WholeCheckpointTest : public testing::Test {
 protected:
  static constexpr int kStages = 3;

  CheckpointOwner owner(int stage, const char* plan = kPlan) const {
    return {folder_.path(), plan, stage, kStages};
  }

  static CheckpointFacts facts(int stage, std::int64_t step) {
    return {.run = {.step = step, .epoch = 1, .samples = 64 * step, .epoch_loss = 0.25 * stage},
            .settings = {.model = "mnist_mlp", .seed = 7},
            .kernels = {{fmt::format("fc{}", stage), "onednn"}}};
  }

  void write(int stage, std::int64_t step, const char* plan = kPlan) const {
    StateDict state;
    for (const std::string& name : {fmt::format("fc{}.weight", stage), std::string("shared"),
                                    fmt::format("optimizer/momentum/fc{}.weight", stage)}) {
      Tensor& tensor = state.emplace(name, Tensor(DType::kF32, {2})).first->second;
      for (float& element : tensor.as<float>())
        element = static_cast<float>(step) + 0.1F * static_cast<float>(stage);
    }
    write_part(part_path(owner(stage, plan), step), owner(stage, plan), facts(stage, step), views_of(state));
  }
  void write(std::int64_t step, const char* plan = kPlan) const {
    for (int stage = 0; stage < kStages; ++stage) write(stage, step, plan);
  }

  fs::path part(int stage, std::int64_t step) const { return part_path(owner(stage), step); }
  fs::path folder_of(std::int64_t step) const { return part(0, step).parent_path(); }
  WholeCheckpoint open(const std::string& name = "") const { return open_checkpoint(folder_.path(), name); }

  std::string error(const std::string& name = "") const {
    try {
      open(name);
    } catch (const Error& error) {
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return {};
  }

  // Step 4 is damaged, and 2 is whole: what is said of 4, whether it is named or the newest is wanted.
  void expect_the_one_before(const testing::Matcher<std::string>& problem) const {
    CapturedLog log;
    EXPECT_EQ(open().run().step, 2);
    EXPECT_THAT(log.lines(), ElementsAre(AllOf(problem, HasSubstr("the one before is taken"))));
    EXPECT_THAT(error("4"), AllOf(problem, Not(HasSubstr("the one before"))));
    EXPECT_THAT(error(folder_of(4).string()), problem);
    EXPECT_EQ(log.lines().size(), 1U);
  }

  const ScratchFolder folder_;
};

TEST_F(WholeCheckpointTest, WithoutANameTheNewestIsTaken) {
  for (const std::int64_t step : {2, 10, 4}) write(step);
  const WholeCheckpoint newest = open();
  EXPECT_EQ(newest.run().step, 10);
  EXPECT_EQ(newest.files().folder, folder_of(10));
  EXPECT_EQ(newest.plan_id(), kPlan);
}

TEST_F(WholeCheckpointTest, IsNamedByItsStepOrItsFolder) {
  for (const std::int64_t step : {2, 4}) write(step);
  EXPECT_EQ(open("2").run().step, 2);
  EXPECT_EQ(open(folder_of(2).string()).run().step, 2);
  const ScratchFolder elsewhere;  // under a name that is no step
  fs::copy(folder_of(2), elsewhere.path() / "kept");
  EXPECT_EQ(open_checkpoint("nowhere", (elsewhere.path() / "kept").string()).run().step, 2);
}

TEST_F(WholeCheckpointTest, AnotherNameIsRefusedWithThoseThatThereAre) {
  EXPECT_THAT(error(),
              AllOf(HasSubstr((folder_.path() / "checkpoints").string()), HasSubstr("no checkpoint")));
  EXPECT_THAT(error("7"), AllOf(HasSubstr("'7' is neither"), HasSubstr("there are none")));
  for (const std::int64_t step : {20, 4}) write(step);
  EXPECT_THAT(error("7"), HasSubstr("steps 4, 20"));
  EXPECT_THROW(open("04"), ConfigError);
  EXPECT_THROW(open(folder_.path().string()), ConfigError);
}

TEST_F(WholeCheckpointTest, HasTheFactsAndTensorsOfAllStages) {
  write(4);
  WholeCheckpoint whole = open();
  EXPECT_EQ(whole.run(), facts(kStages - 1, 4).run) << "the Leaf's";
  EXPECT_EQ(whole.settings(), facts(0, 4).settings);
  EXPECT_EQ(whole.kernels(), (KernelChoice{{"fc0", "onednn"}, {"fc1", "onednn"}, {"fc2", "onednn"}}));
  EXPECT_EQ(whole.types().size(), 7U);
  EXPECT_THAT(whole.read("fc2.weight").as<float>(), ElementsAre(4.2F, 4.2F));
  EXPECT_THAT(whole.read("optimizer/momentum/fc1.weight").as<float>(), ElementsAre(4.1F, 4.1F));
  EXPECT_THAT(whole.read("shared").as<float>(), ElementsAre(4, 4)) << "the first stage owns it";
}

TEST_F(WholeCheckpointTest, WhereAPartIsMissingTheOneBeforeIsTaken) {
  for (const std::int64_t step : {2, 4}) write(step);
  fs::remove(part(1, 4));
  expect_the_one_before(AllOf(HasSubstr(folder_of(4).string()), HasSubstr("has no part of stage 1 of 3")));
  fs::remove(part(2, 4));
  expect_the_one_before(HasSubstr("has no part of stages 1, 2 of 3"));
}

TEST_F(WholeCheckpointTest, WhereAPartIsTruncatedTheOneBeforeIsTaken) {
  for (const std::int64_t step : {2, 4}) write(step);
  const std::uintmax_t whole = fs::file_size(part(1, 4));
  for (const std::uintmax_t length :
       {whole - 1, whole - 12, whole / 2, std::uintmax_t{8}, std::uintmax_t{0}}) {
    fs::resize_file(part(1, 4), length);
    expect_the_one_before(HasSubstr(part(1, 4).string()));
  }
}

TEST_F(WholeCheckpointTest, WhereABitIsFlippedTheOneBeforeIsTaken) {
  constexpr std::streamoff kDataBytes = 24;
  const auto damaged_at = [&](std::streamoff before_end, const testing::Matcher<std::string>& problem) {
    for (const std::int64_t step : {2, 4}) write(step);
    flip_bit(part(2, 4), before_end);
    expect_the_one_before(AllOf(HasSubstr(part(2, 4).string()), problem));
  };
  damaged_at(1, HasSubstr("damaged: tensor \"shared\""));
  damaged_at(9, HasSubstr("damaged: tensor \"optimizer/momentum/fc2.weight\""));
  damaged_at(kDataBytes + 1, HasSubstr("header"));  // a space at its end
  write(4);
  const std::string bytes = read_file(part(2, 4), 1 << 16);
  const auto from_end = [&](std::size_t at) { return static_cast<std::streamoff>(bytes.size() - at); };
  damaged_at(from_end(bytes.find("mnist_mlp")), HasSubstr("damaged: its metadata is not what was written"));
  damaged_at(from_end(0), HasSubstr("header"));  // the header's length
}

TEST_F(WholeCheckpointTest, OfANewerVersionItIsRefusedByIt) {
  for (const std::int64_t step : {2, 4}) write(step);
  CheckedReader reader(part(0, 4));
  Metadata metadata = reader.metadata();
  metadata["version"] = "2";
  StateDict state;
  for (const auto& [name, type] : reader.types()) state.emplace(name, reader.read(name));
  write_checked(part(0, 4), views_of(state), metadata);
  expect_the_one_before(
      AllOf(HasSubstr(part(0, 4).string()), HasSubstr("format version 2"), HasSubstr("use a newer Rookery")));
}

TEST_F(WholeCheckpointTest, UnderAnotherNameItIsRefused) {
  for (const std::int64_t step : {2, 4}) write(step);
  const std::string real = part(0, 4).filename().string();
  fs::copy_file(part(0, 4), part(1, 4), fs::copy_options::overwrite_existing);  // another stage's
  expect_the_one_before(AllOf(HasSubstr(part(1, 4).string()), HasSubstr("this is " + real + " of step 4")));
  write(1, 4);
  fs::copy_file(part(1, 2), part(1, 4), fs::copy_options::overwrite_existing);  // another step's
  expect_the_one_before(AllOf(HasSubstr(part(1, 4).string()), HasSubstr("of step 2, and not what its name")));
}

TEST_F(WholeCheckpointTest, InAFolderThatSaysNoStepPartsOfTwoStepsAreRefused) {
  for (const std::int64_t step : {2, 4}) write(step);
  const fs::path mixed = folder_.path() / "mixed";
  fs::create_directories(mixed);
  for (const auto& path : {part(0, 4), part(1, 2), part(2, 4)}) fs::copy_file(path, mixed / path.filename());
  EXPECT_THAT(error(mixed.string()), AllOf(HasSubstr((mixed / part(1, 2).filename()).string()),
                                           HasSubstr("it is of step 2, and"), HasSubstr("of step 4")));
}

TEST_F(WholeCheckpointTest, OfTwoPlansTheNewerIsTaken) {
  write(4, kOtherPlan);
  write(4);
  for (const auto& [plan, seconds] : {std::pair(kPlan, 1), std::pair(kOtherPlan, 2)}) {
    for (int stage = 0; stage < kStages; ++stage) {
      fs::last_write_time(part_path(owner(stage, plan), 4),
                          fs::file_time_type::clock::now() + std::chrono::seconds(seconds));
    }
  }
  EXPECT_EQ(open().plan_id(), kOtherPlan);
  EXPECT_EQ(open("4").plan_id(), kOtherPlan);
  // That the other one is taken instead is said, though this is the one that was named.
  fs::remove(part_path(owner(1, kOtherPlan), 4));
  CapturedLog log;
  EXPECT_EQ(open("4").plan_id(), kPlan);
  EXPECT_THAT(log.lines(), ElementsAre(AllOf(HasSubstr(kOtherPlan), HasSubstr("the one before is taken"))));
}

TEST_F(WholeCheckpointTest, ThePlanThatWroteLastHasTheNewest) {
  write(4);
  write(2, kOtherPlan);
  for (int stage = 0; stage < kStages; ++stage) {
    fs::last_write_time(part_path(owner(stage, kOtherPlan), 2),
                        fs::file_time_type::clock::now() + std::chrono::seconds(2));
  }
  EXPECT_EQ(open().run().step, 2);
  EXPECT_EQ(open().plan_id(), kOtherPlan);
}

TEST_F(WholeCheckpointTest, WhereNoneIsWholeAllAreNamed) {
  for (const std::int64_t step : {2, 4}) write(step);
  fs::remove(part(1, 4));
  flip_bit(part(0, 2));
  EXPECT_THAT(error(), AllOf(HasSubstr(folder_of(4).string()), HasSubstr(part(0, 2).string())));
  EXPECT_THROW(open(), DataError);
}

TEST_F(WholeCheckpointTest, OtherFilesAreNoParts) {
  write(4);
  for (const char* name :
       {"notes.txt", "0123456789abcdef_3_of_3.safetensors", ".0123456789abcdef_1_of_3.tmp"})
    write_file(folder_of(4) / name, "x");
  fs::create_directories(checkpoints_folder(folder_.path()) / "copy of 4");
  const std::vector<CheckpointFiles> all = find_checkpoints(folder_.path());
  ASSERT_EQ(all.size(), 1U);
  EXPECT_TRUE(all[0].is_complete());
  EXPECT_EQ(all[0].stages_text(true), "stages 0, 1, 2 of 3");
}

// What a run of two stages that share parameters has written, against what it has trained.
class CheckpointOfARun : public CheckpointedRun {
 protected:
  CheckpointOfARun() : CheckpointedRun(tied_model({1, 8, 8}, 10)) {}
};

TEST_F(CheckpointOfARun, IsWhatWasTrained) {
  const PipelineResult trained = run(false);
  WholeCheckpoint whole = open_checkpoint(folder_.path(), "");
  EXPECT_EQ(whole.run().step, 12);
  StateDict state;
  std::size_t of_optimizer = 0;
  for (const auto& [name, type] : whole.types()) {
    if (is_optimizer_key(name)) {
      ++of_optimizer;
    } else {
      state.emplace(name, whole.read(name));
    }
  }
  EXPECT_TRUE(same_state(state, trained.state));
  EXPECT_EQ(of_optimizer, 2 * state.size()) << "Adam has two tensors for each";
}

}  // namespace
}  // namespace rookery
