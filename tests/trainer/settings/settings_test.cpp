#include "trainer/settings/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/json.hpp"
#include "tests/support/problem.hpp"
#include "tests/support/repository.hpp"
#include "tests/support/scratch_folder.hpp"
#include "trainer/settings/batch_sizes.hpp"
#include "trainer/settings/keys/settings_keys.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TrainingSettings parse(const char* text) {
  return settings_from_json(Json::parse(text), "train.json");
}

std::string settings_problem(const char* text) {
  try {
    parse(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Settings, EmptyMeansDefaults) {
  EXPECT_EQ(parse("{}"), TrainingSettings());
}

TEST(Settings, AugmentationIsAListOfSteps) {
  const TrainingSettings settings = parse(R"({"augment": ["horizontal_flip",
    {"name": "random_crop", "size": 28, "padding": 2}, {"name": "normalize", "mean": [0.1, 0.2, 0.3], "std": 2}]})");
  ASSERT_EQ(settings.augment.size(), 3U);
  const std::vector<AugmentStep> expected{{"horizontal_flip", {{"share", {0.5}}}},
                                          {"random_crop", {{"size", {28}}, {"padding", {2}}}},
                                          {"normalize", {{"mean", {0.1, 0.2, 0.3}}, {"std", {2}}}}};
  EXPECT_EQ(settings.augment, expected);
  EXPECT_EQ(parse(to_json(settings).dump().c_str()), settings);
  EXPECT_EQ(augment_from_text(to_text(settings.augment)), settings.augment);
}

TEST(Settings, AugmentationThatIsWrongIsNamedByItsPlace) {
  EXPECT_THAT(settings_problem(R"({"augment": "rotation"})"),
              HasSubstr("augment: \"rotation\" is not a list of steps"));
  EXPECT_THAT(settings_problem(R"({"augment": ["rotate"]})"),
              HasSubstr("augment/0: \"rotate\" is not one of \"rescale\""));
  EXPECT_THAT(settings_problem(R"({"augment": ["zoom", {"name": "random_crop", "padding": 1.5}]})"),
              HasSubstr("augment/1/padding: 1.5 is not an integer from 0 to 4096"));
  EXPECT_THAT(settings_problem(R"({"augment": [{"name": "cutout", "side": 3}]})"),
              HasSubstr("augment/0/side: \"cutout\" has no such key; it has name, size, value"));
  EXPECT_THAT(settings_problem(R"({"augment": [{"name": "normalize", "mean": []}]})"),
              HasSubstr("augment/0/mean: []"));
  EXPECT_THAT(settings_problem(R"({"augment": [{"name": "rotation", "degrees": 270}]})"),
              HasSubstr("augment/0/degrees: 270 is not a number from 0 up to 180"));
}

TEST(Settings, EveryKeyIsRead) {
  const TrainingSettings settings = parse(R"({
    "model": "mnist_mlp", "data": "idx:datasets/mnist", "train_fraction": 0.8, "split": "in_order",
    "loss": "cross_entropy",
    "optimizer": {"name": "adam", "learning_rate": 0.002, "betas": [0.8, 0.99], "epsilon": 1e-6, "weight_decay": 0.1},
    "epochs": 7, "batch_size": 32, "micro_batches": 4, "schedule": "1f1b", "validate_every": 2, "seed": 5, "precision": "bf16",
    "save": false, "peer_timeout_seconds": 2.5})");
  TrainingSettings expected;
  expected.model = "mnist_mlp";
  expected.data = "idx:datasets/mnist";
  expected.train_fraction = 0.8;
  expected.split = "in_order";
  expected.loss = "cross_entropy";
  expected.optimizer.learning_rate = 0.002;
  expected.optimizer.beta1 = 0.8;
  expected.optimizer.beta2 = 0.99;
  expected.optimizer.epsilon = 1e-6;
  expected.optimizer.weight_decay = 0.1;
  expected.epochs = 7;
  expected.batch_size = 32;
  expected.micro_batches = 4;
  expected.precision = "bf16";
  expected.validate_every = 2;
  expected.seed = 5;
  expected.save = false;
  expected.peer_timeout_seconds = 2.5;
  EXPECT_EQ(settings, expected);
}

TEST(Settings, WritingAndReadingGivesTheSame) {
  TrainingSettings settings;
  settings.model = "m";
  settings.seed = (1ULL << 53) - 1;
  EXPECT_EQ(parse(to_json(settings).dump().c_str()), settings);
  settings.optimizer.name = "sgd";
  settings.optimizer.momentum = 0.9;
  EXPECT_EQ(parse(to_json(settings).dump().c_str()), settings);
  EXPECT_FALSE(to_json(settings)["optimizer"].contains("betas"));
}

TEST(Settings, EveryOptimizerAndScheduleIsReadAndWritten) {
  for (const SettingsObject& object : settings_objects()) {
    for (const SettingsVariant& variant : object.variants) {
      const Json named = {{object.name, {{object.discriminator, variant.name}}}};
      const TrainingSettings settings = settings_from_json(named, "train.json");
      EXPECT_EQ(object.chosen(settings), variant.name);
      EXPECT_EQ(parse(to_json(settings).dump().c_str()), settings);
    }
  }
  EXPECT_EQ(parse(R"({"optimizer": {"name": "lion"}})").optimizer, optimizer_defaults("lion"));
  const TrainingSettings settings = parse(R"({
    "optimizer": {"name": "rmsprop", "alpha": 0.8, "momentum": 0.5, "centered": true},
    "learning_rate_schedule": {"name": "linear_warmup", "warmup": 5, "start_factor": 0.1, "per": "epoch"}})");
  EXPECT_EQ(settings.optimizer.smoothing, 0.8);
  EXPECT_TRUE(settings.optimizer.centered);
  EXPECT_EQ(settings.learning_rate_schedule.warmup, 5);
  EXPECT_EQ(settings.learning_rate_schedule.per, "epoch");
  EXPECT_EQ(parse(to_json(settings).dump().c_str()), settings);
}

TEST(Settings, OfAveragingDependOnItsMode) {
  EXPECT_EQ(TrainingSettings().averaging, AveragingSettings{.mode = "gradients"});
  EXPECT_EQ(parse(R"({"averaging": "parameters"})").averaging, AveragingSettings{.mode = "parameters"});
  EXPECT_EQ(parse(R"({"averaging": {"mode": "parameters", "every": 16, "optimizer": true}})").averaging,
            (AveragingSettings{.mode = "parameters", .every = 16, .optimizer = true}));
  EXPECT_EQ(parse(R"({"averaging": {"mode": "diloco", "every": 8, "outer_momentum": 0.5}})").averaging,
            (AveragingSettings{.mode = "diloco", .every = 8, .outer_momentum = 0.5}));
  EXPECT_EQ(parse(R"({"averaging": {"mode": "diloco", "every": 8, "fragments": 4, "overlap": 2,
                                    "compression": "topk:0.01:2"}})")
                .averaging,
            (AveragingSettings{
                .mode = "diloco", .every = 8, .fragments = 4, .overlap = 2, .compression = "topk:0.01:2"}));
  EXPECT_THAT(
      settings_problem(R"({"averaging": {"mode": "diloco", "every": 8, "fragments": 9, "overlap": 10}})"),
      AllOf(HasSubstr("averaging/fragments: 9 is more than the 8 updates"),
            HasSubstr("averaging/overlap: 10 is more than the 8 updates")));
  EXPECT_THAT(settings_problem(R"({"averaging": {"mode": "gradients", "compression": "topk:2"}})"),
              HasSubstr("averaging/compression: \"topk:2\" is not \"none\", \"fp16\""));
  EXPECT_THAT(settings_problem(R"({"averaging": {"every": 8}})"),
              HasSubstr("averaging/mode: is missing: give one of \"gradients\", \"parameters\", \"diloco\""));
  EXPECT_THAT(settings_problem(R"({"averaging": {"mode": "gradients", "every": 8}})"),
              HasSubstr("averaging/every: \"gradients\" has no such key; it has mode"));
  EXPECT_THAT(settings_problem(R"({"averaging": {"mode": "parameters", "every": 0}})"),
              HasSubstr("averaging/every: 0 is not an integer from 1 to"));
  EXPECT_THAT(
      settings_problem(R"({"every": 8})"),
      HasSubstr("it is a key of averaging: give \"averaging\": {\"mode\": \"parameters\", \"every\": 8}"));
}

TEST(Settings, OfTransport) {
  EXPECT_EQ(parse("{}").transport, TransportSettings());
  EXPECT_EQ(parse(R"({"transport": {"gradients": "bf16"}})").transport,
            TransportSettings{.gradients = "bf16"});
  const TrainingSettings settings = parse(R"({"transport": {"activations": "int4", "gradients": "fp16"}})");
  EXPECT_EQ(settings.transport, (TransportSettings{.activations = "int4", .gradients = "fp16"}));
  EXPECT_EQ(parse(to_json(settings).dump().c_str()), settings);
  EXPECT_THAT(settings_problem(R"({"transport": "fp16"})"),
              HasSubstr("transport: \"fp16\" is not an object, e.g. {\"activations\": \"fp16\"}"));
  EXPECT_THAT(settings_problem(R"({"transport": {"activations": "topk:0.1"}})"),
              HasSubstr("transport/activations: \"topk:0.1\" is not one of \"none\", \"fp16\""));
  EXPECT_EQ(parse(R"({"transport": {"activations": "int4_delta"}})").transport,
            TransportSettings{.activations = "int4_delta"});
  EXPECT_THAT(settings_problem(R"({"transport": {"gradients": "int8_delta"}})"),
              HasSubstr("transport/gradients: \"int8_delta\" is not one of \"none\", \"fp16\""));
  EXPECT_THAT(settings_problem(R"({"transport": {"gradient": "fp16"}})"),
              HasSubstr("transport/gradient: there is no such key; did you mean 'gradients'?"));
}

TEST(LossSettings, ANameAnObjectOrAList) {
  EXPECT_EQ(parse(R"({"loss": "l1"})").loss, LossSettings("l1"));
  const LossSettings smooth = parse(R"({"loss": {"name": "cross_entropy", "ignore_index": -100,
                                                 "label_smoothing": 0.1, "class_axis": 1}})")
                                  .loss;
  LossSettings expected("cross_entropy");
  expected.terms[0].ignore_index = -100;
  expected.terms[0].label_smoothing = 0.1;
  expected.terms[0].class_axis = 1;
  EXPECT_EQ(smooth, expected);
  const LossSettings several = parse(R"({"loss": [
    {"output": "logits", "loss": {"name": "cross_entropy", "ignore_index": 0}},
    {"output": "logits", "loss": "mse", "target": "soft"},
    {"output": "mask", "loss": {"name": "bce_with_logits", "pos_weight": [1, 2.5]}, "weight": 0.25,
     "target": "input"}]})")
                                   .loss;
  ASSERT_EQ(several.terms.size(), 3U);
  EXPECT_EQ(several.terms[0].ignore_index, 0);
  EXPECT_EQ(several.terms[0].target, kLabels);
  EXPECT_EQ(several.terms[1].target, "soft");
  EXPECT_EQ(several.terms[2].pos_weight, (std::vector<double>{1, 2.5}));
  EXPECT_EQ(several.terms[2].weight, 0.25);
  EXPECT_EQ(several.terms[2].target, "input");
  for (const LossSettings& loss : {LossSettings("mse"), smooth, several}) {
    TrainingSettings settings;
    settings.loss = loss;
    EXPECT_EQ(parse(to_json(settings).dump().c_str()), settings);
    EXPECT_EQ(loss_from_text(to_text(loss)), loss);
  }
  EXPECT_EQ(to_text("mse"), "mse");
  EXPECT_THROW(loss_from_text("{"), ConfigError);
  EXPECT_THROW(loss_from_text("mae"), ConfigError);
}

TEST(LossSettings, ProblemsNameTheirPlace) {
  EXPECT_THAT(settings_problem(R"({"loss": 3})"),
              HasSubstr("train.json: loss: 3 is not a name, e.g. \"mse\", or an object, e.g. {"));
  EXPECT_THAT(settings_problem(R"({"loss": []})"), HasSubstr("loss: [] has no loss"));
  EXPECT_THAT(settings_problem(R"({"loss": {"name": "huber"}})"),
              HasSubstr("loss/name: \"huber\" is not one of \"mse\""));
  EXPECT_THAT(settings_problem(R"({"loss": {"name": "mse", "ignore_index": 1}})"),
              HasSubstr("loss/ignore_index: \"mse\" has no such key"));
  EXPECT_THAT(settings_problem(R"({"loss": {"name": "cross_entropy", "label_smoothing": 2}})"),
              HasSubstr("loss/label_smoothing: 2 is not a number from 0 and up to 1"));
  EXPECT_THAT(settings_problem(R"({"loss": {"name": "cross_entropy", "ignore_index": 0.5}})"),
              HasSubstr("loss/ignore_index: 0.5 is not an integer, or null, e.g. -100"));
  EXPECT_THAT(settings_problem(R"({"loss": {"name": "bce_with_logits", "pos_weight": [1, -1]}})"),
              HasSubstr("loss/pos_weight: [1,-1] is not"));
  EXPECT_THAT(
      settings_problem(R"({"loss": [{"output": "a", "loss": "mse"}, {"output": "b", "loss": "mae"}]})"),
      HasSubstr("loss/1/loss: \"mae\" is not one of"));
  EXPECT_THAT(settings_problem(R"({"loss": [{"output": "a", "loss": "mse"}, "l1"]})"),
              HasSubstr("loss/1: \"l1\" is not"));
  EXPECT_THAT(settings_problem(R"({"loss": [{"output": "a", "loss": "mse"}, {"loss": "l1"}]})"),
              HasSubstr("loss/1/output: is missing"));
  EXPECT_THAT(settings_problem(R"({"loss": [{"output": "a", "loss": "l1"}, {"output": "a", "loss": "l1"}]})"),
              HasSubstr("loss/1: \"l1\" of \"a\" is there before"));
  EXPECT_THAT(settings_problem(R"({"loss": [{"loss": "l1", "weight": -1, "goal": "x"}]})"),
              AllOf(HasSubstr("loss/0/weight: -1 is not"), HasSubstr("loss/0/goal: there is no such key")));
  EXPECT_THAT(settings_problem(R"({"loss": [{"loss": {"name": "cross_entropy", "label_smoothing": "x"}}]})"),
              HasSubstr("loss/0/loss/label_smoothing: \"x\" is not"));
}

TEST(Settings, AnObjectWithANameMayBeTheName) {
  EXPECT_EQ(parse(R"({"optimizer": "adam"})"), TrainingSettings());
  for (const SettingsObject& object : settings_objects()) {
    for (const SettingsVariant& variant : object.variants) {
      const Json short_form = {{object.name, variant.name}};
      const Json long_form = {{object.name, {{object.discriminator, variant.name}}}};
      EXPECT_EQ(settings_from_json(short_form, "train.json"), settings_from_json(long_form, "train.json"));
    }
  }
}

TEST(Settings, WhatIsNearNoKeyGetsNoSuggestion) {
  const std::string told = settings_problem(R"({"device": "cuda"})");
  EXPECT_THAT(told, HasSubstr("train.json: device: there is no such key; there are model, data, "));
  EXPECT_THAT(told, Not(HasSubstr("did you mean")));
  EXPECT_EQ(settings_problem(R"({"lr": 3})").find("did you mean"), std::string::npos);
  EXPECT_THAT(settings_problem(R"({"Batch_Size": 3})"), HasSubstr("did you mean 'batch_size'?"));
}

TEST(Settings, AKeyOfAnObjectIsSentThere) {
  EXPECT_EQ(settings_problem(R"({"learning_rate": 0.1})"),
            "train.json: learning_rate: it is a key of optimizer: give \"optimizer\": {\"name\": \"adam\", "
            "\"learning_rate\": 0.1}");
}

TEST(Settings, EveryExampleIsAccepted) {
  const auto check = [](const std::vector<SettingsKey>& keys) {
    for (const SettingsKey& key : keys) {
      if (!key.example.is_null()) {
        EXPECT_TRUE(key.accepts(key.example)) << key.name << " " << key.wanted();
      }
      EXPECT_TRUE(!key.example.is_null() || key.values == "true or false" || key.values.starts_with("one of"))
          << key.name << " has no example";
    }
  };
  check(settings_keys());
  check(loss_entry_keys());
  check(transport_keys());
  for (const SettingsVariant& variant : loss_object().variants) check(variant.keys);
  for (const SettingsObject& object : settings_objects()) {
    for (const SettingsVariant& variant : object.variants) check(variant.keys);
  }
}

TEST(Settings, UnknownKeysSuggestTheNearest) {
  EXPECT_THAT(settings_problem(R"({"epoch": 3})"),
              AllOf(HasSubstr("train.json: epoch: "), HasSubstr("'epochs'")));
  EXPECT_THAT(settings_problem(R"({"optimiser": {}})"), HasSubstr("'optimizer'"));
  EXPECT_THAT(settings_problem(R"({"optimizer": {"name": "adam", "lerning_rate": 1}})"),
              AllOf(HasSubstr("optimizer/lerning_rate: "), HasSubstr("it has name, learning_rate, betas")));
  EXPECT_THAT(settings_problem(R"({"optimizer": {"name": "sgd", "betas": [0.9, 0.9]}})"),
              HasSubstr("optimizer/betas: \"sgd\" has no such key; it has name, learning_rate, momentum"));
  EXPECT_THAT(settings_problem(R"({"learning_rate_schedule": {"name": "step", "warmup": 3}})"),
              HasSubstr("learning_rate_schedule/warmup: \"step\" has no such key; it has name, step_size"));
}

TEST(Settings, WrongValuesAreNamedWithWhatIsRight) {
  EXPECT_EQ(settings_problem(R"({"epochs": "3"})"),
            "train.json: epochs: \"3\" is not an integer from 1 to 1000000, e.g. 1");
  EXPECT_THAT(settings_problem(R"({"epochs": 1.5})"), HasSubstr("epochs: 1.5 is not"));
  EXPECT_THAT(settings_problem(R"({"epochs": 0})"), HasSubstr("epochs: 0 is not"));
  EXPECT_THAT(settings_problem(R"({"batch_size": 18446744073709551615})"),
              HasSubstr("batch_size: 18446744073709551615"));
  EXPECT_THAT(settings_problem(R"({"seed": -1})"), HasSubstr("seed: -1 is not"));
  EXPECT_THAT(settings_problem(R"({"train_fraction": 0})"),
              HasSubstr("train_fraction: 0 is not a number above 0 and up to 1"));
  EXPECT_THAT(settings_problem(R"({"save": 1})"), HasSubstr("save: 1 is not true or false"));
  EXPECT_THAT(settings_problem(R"({"loss": "mae"})"),
              AllOf(HasSubstr("loss: \"mae\""), HasSubstr("\"mse\"")));
  EXPECT_THAT(settings_problem(R"({"data": "csv:"})"), HasSubstr("data: \"csv:\""));
  EXPECT_THAT(settings_problem(R"({"micro_batches": 65})"),
              HasSubstr("micro_batches: 65 is more than the 64 samples"));
  EXPECT_THAT(settings_problem(R"({"optimizer": "adm"})"),
              HasSubstr("optimizer: \"adm\" is not one of \"adam\", "));
  EXPECT_THAT(
      settings_problem(R"({"clip_gradient_norm": "off"})"),
      HasSubstr("clip_gradient_norm: \"off\" is not a number above 0 and up to 1e+30, or null, e.g. 1.0"));
  EXPECT_THAT(settings_problem(R"({"optimizer": {"learning_rate": 1}})"),
              HasSubstr("optimizer/name: is missing"));
  EXPECT_THAT(settings_problem(R"({"optimizer": {"name": "lars"}})"),
              HasSubstr("optimizer/name: \"lars\" is not one of"));
  EXPECT_THAT(settings_problem(R"({"optimizer": {"name": "adam", "betas": [0.9, 1]}})"),
              HasSubstr("optimizer/betas: "));
  EXPECT_THAT(settings_problem(R"({"optimizer": {"name": "sgd", "nesterov": true}})"),
              HasSubstr("optimizer/nesterov: needs a momentum above 0"));
  EXPECT_THAT(settings_problem(R"({"learning_rate_schedule": {"name": "cosine", "per": "week"}})"),
              HasSubstr("learning_rate_schedule/per: \"week\" is not one of"));
  EXPECT_THAT(settings_problem("[]"),
              HasSubstr("train.json: [] is not an object of settings, e.g. {\"epochs\": 100}"));
}

TEST(Settings, StalenessIsBounded) {
  EXPECT_THAT(settings_problem(R"({"max_staleness": -1})"),
              HasSubstr("max_staleness: -1 is not an integer from 0"));
  const TrainingSettings settings =
      settings_from_json({{"schedule", "async"}, {"max_staleness", 2}}, "train.json");
  EXPECT_EQ(settings.schedule, (ScheduleSettings{.name = "async", .max_staleness = 2}));
}

TEST(Settings, ChunksAreBounded) {
  const TrainingSettings settings = parse(R"({"schedule": "interleaved", "chunks": 4})");
  EXPECT_EQ(settings.schedule, (ScheduleSettings{.name = "interleaved", .chunks = 4}));
  EXPECT_EQ(parse(to_json(settings).dump().c_str()), settings);
  EXPECT_EQ(parse(R"({"schedule": "zbv", "chunks": null})").schedule, ScheduleSettings{.name = "zbv"});
  EXPECT_THAT(settings_problem(R"({"schedule": "interleaved", "chunks": 1})"),
              HasSubstr("chunks: 1 is not an integer from 2 to 16, or null, e.g. 4"));
  EXPECT_THAT(settings_problem(R"({"chunks": 17})"), HasSubstr("chunks: 17 is not an integer from 2 to 16"));
}

// Plans made before there was such a key keep their id, which is a digest of what is written.
TEST(Settings, ChunksAreWrittenOnlyWhereTheyAreGiven) {
  EXPECT_FALSE(to_json(TrainingSettings()).contains("chunks"));
  EXPECT_TRUE(to_json(TrainingSettings()).contains("max_staleness")) << "which is null, too";
  EXPECT_EQ(to_json(parse(R"({"chunks": 3})"))["chunks"], 3);
}

TEST(Settings, ScheduleAndMicroBatchesMayBeLeftToClusterize) {
  const TrainingSettings both = parse(R"({"schedule": "auto", "micro_batches": "auto"})");
  EXPECT_EQ(both.schedule.name, kAutoSchedule);
  EXPECT_EQ(both.micro_batches, std::nullopt);
  EXPECT_THAT(undecided(both), ElementsAre("micro_batches", "schedule"));
  EXPECT_EQ(parse(to_json(both).dump().c_str()), both);
  EXPECT_THAT(undecided(parse(R"({"averaging": "auto"})")), ElementsAre("averaging/mode"));
  EXPECT_THAT(undecided(TrainingSettings()), IsEmpty());
  parse(R"({"schedule": "async", "micro_batches": "auto"})");
  parse(R"({"schedule": "auto", "micro_batches": 4, "clip_gradient_norm": 1})");
  EXPECT_THAT(settings_problem(R"({"micro_batches": "many"})"),
              HasSubstr("micro_batches: \"many\" is not an integer from 1 to 4096, or \"auto\", e.g. 1"));
  EXPECT_THAT(settings_problem(R"({"micro_batches": null})"), HasSubstr("micro_batches: null is not"));
  EXPECT_THAT(settings_problem(R"({"schedule": "automatic"})"),
              HasSubstr("schedule: \"automatic\" is not one of"));
}

// No number and no order of work is made up where none is decided.
TEST(Settings, WhatIsNotDecidedHasNoValue) {
  TrainingSettings settings;
  settings.micro_batches.reset();
  settings.schedule.name = kAutoSchedule;
  EXPECT_THROW(micro_batch_sizes(settings, 64), BugError);
  EXPECT_THROW(is_synchronous(settings.schedule), ConfigError);
  EXPECT_THROW(in_flight(settings.schedule, 0, 1, 1), ConfigError);
}

TEST(Settings, TheMainJobIsOneOfOurs) {
  const TrainingSettings settings = read_settings(kNodeData / "train.json");
  EXPECT_EQ(settings.model, "cnn_net");
  EXPECT_EQ(settings.epochs, 100);
}

// Of other schedules nothing would tell; what runs have already recorded is read.
TEST(Settings, SomeKeysAreOfOneScheduleAlone) {
  const ScratchFolder folder;
  const std::filesystem::path file = folder.path() / "train.json";
  for (const char* schedule : {"1f1b", "zb", "interleaved", "zbv", "auto"}) {
    write_file(file, fmt::format(R"({{"schedule": "{}", "max_staleness": 0}})", schedule));
    EXPECT_THAT(problem<ConfigError>([&] { read_settings(file); }),
                AllOf(HasSubstr("max_staleness: 0 has no effect"), HasSubstr("\"schedule\": \"async\"")));
  }
  write_file(file, R"({"schedule": "async", "max_staleness": 3})");
  EXPECT_EQ(read_settings(file).schedule.max_staleness, 3);
  for (const char* schedule : {"1f1b", "zb", "async", "zbv", "auto"}) {
    write_file(file, fmt::format(R"({{"schedule": "{}", "chunks": 4}})", schedule));
    EXPECT_THAT(problem<ConfigError>([&] { read_settings(file); }),
                AllOf(HasSubstr("train.json"), HasSubstr("chunks: 4 has no effect"), HasSubstr(schedule)));
  }
  write_file(file, R"({"schedule": "interleaved", "chunks": 4})");
  EXPECT_EQ(read_settings(file).schedule.chunks, 4);
}

TEST(Settings, AllProblemsAreToldAtOnce) {
  EXPECT_THAT(settings_problem(R"({"epochs": 0, "seed": "x", "colour": 1})"),
              AllOf(HasSubstr("epochs: "), HasSubstr("seed: "), HasSubstr("colour: ")));
}

// An editor that checks train.json by the schema says what the programs say.
TEST(Settings, TheSchemaAcceptsWhatIsRead) {
  const std::vector<Json> values{Json(),
                                 0,
                                 1,
                                 -1,
                                 1.0,
                                 0.5,
                                 1e300,
                                 "",
                                 "mse",
                                 "adam",
                                 "digits",
                                 "digits?scale=2",
                                 "sorter?digits=4",
                                 "csv:",
                                 "csv:a",
                                 "1f1b",
                                 "auto",
                                 true,
                                 Json::array(),
                                 Json::array({0.9, 0.99}),
                                 Json::array({"body.*"}),
                                 Json::array({{{"loss", "mse"}}}),
                                 Json::array({{{"loss", "mse"}, {"weight", -1}}}),
                                 Json::object(),
                                 {{"name", "adam"}, {"betas", {0.9, 1}}},
                                 {{"name", "adam"}, {"betas", {0.9}}},
                                 {{"name", "sgd"}, {"momentum", 0.5}},
                                 {{"name", "sgd"}, {"betas", {0.9, 0.9}}},
                                 {{"name", "cross_entropy"}, {"ignore_index", nullptr}},
                                 {{"name", "bce_with_logits"}, {"pos_weight", Json::array()}},
                                 {{"name", "step"}, {"gamma", 0}},
                                 1ULL << 60,
                                 18446744073709551615ULL};
  std::vector<std::string> names{"loss", "optimizer", "learning_rate_schedule", "no_such_key"};
  for (const SettingsKey& key : settings_keys()) names.push_back(key.name);
  int accepted = 0;
  for (const std::string& name : names) {
    for (const Json& value : values) {
      const Json document = {{name, value}};
      bool is_read = true;
      try {
        settings_from_json(document, "");
      } catch (const ConfigError&) {
        is_read = false;
      }
      EXPECT_EQ(fits_schema(document, settings_schema()), is_read) << document.dump();
      accepted += is_read ? 1 : 0;
    }
  }
  EXPECT_GT(accepted, 40);
}

TEST(Settings, IntegersAreNoFractions) {
  EXPECT_EQ(settings_problem(R"({"epochs": 1.0})"),
            "train.json: epochs: 1 is not an integer from 1 to 1000000, e.g. 1");
  EXPECT_THAT(settings_problem(R"({"seed": 18446744073709551615})"),
              HasSubstr("seed: 18446744073709551615 is not"));
}

TEST(Settings, ReferenceHasEveryKey) {
  const std::string reference = settings_reference();
  for (const SettingsKey& key : settings_keys()) EXPECT_THAT(reference, HasSubstr("| `" + key.name + "` |"));
  EXPECT_THAT(reference, HasSubstr("`optimizer/momentum`"));
  EXPECT_THAT(reference, HasSubstr("| `batch_size` | an integer from 1 to 1048576 | `64` |"));
}

TEST(Settings, DocumentationHasEveryKey) {
  const std::string page = read_file(kNodeData / "README.md", 1 << 20);
  for (const SettingsKey& key : settings_keys()) EXPECT_THAT(page, HasSubstr("`" + key.name + "`"));
  for (const SettingsKey& key : transport_keys())
    EXPECT_THAT(page, HasSubstr(fmt::format("`{}/{}`", kTransportKey, key.name)));
  for (const SettingsObject& object : settings_objects()) {
    for (const SettingsVariant& variant : object.variants) {
      for (const SettingsKey& key : variant.keys) {
        EXPECT_THAT(page, HasSubstr("`" + object.name + "/" + key.name + "`"));
      }
    }
  }
}

}  // namespace
}  // namespace rookery
