// Every model of the zoo trains the same bits on 1, 2, 3 and 5 stages, at a small size on data made for it.
#include <gtest/gtest.h>

#include "models/graph/state/initialize.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/pipeline.hpp"
#include "tests/support/repository.hpp"

namespace rookery {
namespace {

struct ZooJob {
  std::string model;
  std::string data;
};
void PrintTo(const ZooJob& what, std::ostream* out) {
  *out << what.model;
}

const std::vector<ZooJob>& zoo_jobs() {
  static const std::vector<ZooJob> all{
      {"cnn_net", "digits"},
      {"mnist_mlp", "idx:datasets/mnist"},
      {"deep_mlp", "idx:datasets/mnist"},
      {"resnet18?image_size=32&classes=10&width=0.25", "shapes?samples=8"},
      {"resnet50?image_size=32&classes=10&width=0.25", "shapes?samples=8"},
      {"inception_v3?classes=3&width=0.1", "shapes?samples=8&image_size=299&classes=3"},
      {"vgg11?image_size=32&classes=10&hidden=0&width=0.25", "shapes?samples=8"},
      {"mobilenet_v2?image_size=32&classes=10&width=0.25", "shapes?samples=8"},
      {"bert?size=tiny&width=32&inner=64&vocabulary=256&length=32&positions=40", "masked_words?samples=8"},
      {"gpt", "sorter?samples=8"},
      {"vit?image_size=32&classes=10&patch=8&layers=2&heads=2&width=32&inner=64&dropout=0.1",
       "shapes?samples=8"},
      {"small_xception?image_size=36&width=0.25", "shapes?samples=8&image_size=36&classes=2"},
  };
  return all;
}

class ZooCuts : public testing::TestWithParam<ZooJob> {};

TEST_P(ZooCuts, TrainTheSameBits) {
  const ZooJob& job = GetParam();
  const auto dataset = open_dataset(job.data, kNodeData);
  TrainingSettings settings{.batch_size = 4, .micro_batches = 2, .validate_every = 0};
  settings.loss = zoo_entry(job.model).loss;
  if (job.model.starts_with("small_xception")) settings.loss.terms.at(0).target = "answers";
  settings.train_fraction = 8.0 / static_cast<double>(dataset->size());
  const PipelineResult expected =
      run_pipeline(zoo_model(job.model), std::vector<OpId>{0}, settings, *dataset);
  ASSERT_EQ(expected.losses.size(), 2U);
  EXPECT_FALSE(same_state(expected.state, initial_state(zoo_model(job.model), settings.seed)));
  for (const std::size_t stages : {2, 3, 5}) {
    const auto begins = even_cuts(zoo_model(job.model), settings.loss, *dataset, stages);
    const PipelineResult result = run_pipeline(zoo_model(job.model), begins, settings, *dataset);
    EXPECT_EQ(result.losses, expected.losses) << stages;
    EXPECT_TRUE(same_state(result.state, expected.state)) << stages;
  }
}

TEST_P(ZooCuts, TrainTheSameBitsOnAnyNumberOfThreads) {
  const ZooJob& job = GetParam();
  const auto dataset = open_dataset(job.data, kNodeData);
  TrainingSettings settings{.batch_size = 4, .validate_every = 0};
  settings.loss = zoo_entry(job.model).loss;
  if (job.model.starts_with("small_xception")) settings.loss.terms.at(0).target = "answers";
  settings.clip_gradient_norm = 1;
  settings.train_fraction = 8.0 / static_cast<double>(dataset->size());
  const auto train_with = [&](int threads) {
    return run_pipeline(zoo_model(job.model), std::vector<OpId>{0}, settings, *dataset, {.threads = threads});
  };
  const PipelineResult expected = train_with(1);
  ASSERT_EQ(expected.losses.size(), 2U);
#ifdef ROOKERY_SANITIZED
  const std::vector<int> counts{3};
#else
  const std::vector<int> counts{2, 3, 5, 8};
#endif
  for (const int threads : counts) {
    const PipelineResult result = train_with(threads);
    EXPECT_EQ(result.losses, expected.losses) << threads;
    EXPECT_TRUE(same_state(result.state, expected.state)) << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, ZooCuts, testing::ValuesIn(zoo_jobs()),
                         [](const auto& instance) { return NamedOptions(instance.param.model).name(); });

TEST(ZooJobs, AreThereForEveryModel) {
  ASSERT_EQ(zoo_jobs().size(), zoo().size());
  for (std::size_t i = 0; i < zoo_jobs().size(); ++i)
    EXPECT_EQ(NamedOptions(zoo_jobs()[i].model).name(), zoo()[i].name);
}

}  // namespace
}  // namespace rookery
