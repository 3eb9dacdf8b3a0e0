#include "clusterize/task/make_task.hpp"

#include <gmock/gmock.h>

#include "models/base/files/files.hpp"
#include "tests/clusterize/plan_support.hpp"
#include "tests/support/repository.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

TEST(Task, DataMustFitTheModel) {
  const ScratchFolder folder;
  TrainingSettings settings;
  settings.data = "csv:data.csv";
  const auto problem = [&](std::size_t values, const std::string& label) {
    std::string line;
    for (std::size_t i = 0; i < values; ++i) line += "1,";
    write_file(folder.path() / "data.csv", line + "3\n" + line + label + "\n");
    return error_of([&] { make_task(settings, folder.path()); });
  };
  EXPECT_EQ(problem(63, "0"),
            "cnn_net with csv:data.csv: the model's input 'input' is f32[batch, 1, 8, 8], but 'input' of the "
            "data set is f32[batch, 63]");
  EXPECT_EQ(
      problem(64, "10"),
      "cnn_net with csv:data.csv: sample 1 has labels 10, but the model's output has 10 classes, 0 to 9");
  settings.loss = "l1";
  EXPECT_THAT(problem(64, "9"), HasSubstr("targets of i64[1] for predictions of f32[1, 10]"));
}

// Which the data set has beside the classes that the loss takes.
TEST(Task, MixupNeedsALossOfWhatItMixes) {
  TrainingSettings settings;
  settings.model = "resnet18?image_size=32&classes=2&width=0.25";
  settings.data = "shapes?samples=80&classes=2&image_size=32";
  settings.augment = {{"mixup", {}}};
  settings.loss = "cross_entropy";
  EXPECT_THAT(error_of([&] { make_task(settings, kNodeData); }),
              HasSubstr("\"mixup\" mixes targets of floats, and \"labels\" holds classes"));
}

TEST(Task, ReadsTheDigits) {
  const TrainingTask task = make_task(TrainingSettings(), kNodeData);
  // Values and labels, all ids, and those that train twice more.
  const std::int64_t bytes = 1797 * (64 * 4 + 8) + (1797 + 2 * 1078) * 8;
  constexpr std::uint64_t kDigest = 0x768F62959BEFAE60;  // on every machine
  EXPECT_EQ(task.data, (DataSizes{1078, 719, bytes, kDigest}));
  EXPECT_EQ(task.graph.ops().back().type, "MseLoss");
  EXPECT_TRUE(task.kernels.contains("conv2d_1"));
}

}  // namespace
}  // namespace rookery
