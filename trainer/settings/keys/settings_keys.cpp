#include "trainer/settings/keys/settings_keys.hpp"

#include "models/base/named_rows.hpp"
#include "trainer/data/formats.hpp"
#include "trainer/schedule/schedule.hpp"
#include "trainer/settings/checkpoint_interval.hpp"
#include "trainer/settings/keys/key_builders.hpp"

namespace rookery {
namespace {

template <typename Field>
SettingsKey model_key(Field field) {
  return {.name = "model",
          .values = "the name of a model",
          .example = "cnn_net",
          .schema = {{"type", "string"}, {"minLength", 1}},
          .read = reader(field),
          .write = writer(field),
          .help =
              "the model: its name in the zoo, with options where wanted, "
              "`resnet18?image_size=32&classes=10`; or an .onnx file, looked for below node_data"};
}

template <typename Field>
SettingsKey data_key(Field field) {
  return {.name = "data",
          .values = "one of " + data_names(data_formats()),
          .example = "csv:datasets/digits.csv.gz",
          .schema = {{"type", "string"}, {"pattern", data_pattern()}},
          .read = reader(field),
          .write = writer(field),
          .help =
              "the data set: one of the table below, with options where it has some, "
              "`csv:datasets/digits.csv.gz?scale=16`; files are looked for below node_data, unless they "
              "have an address, `s3://bucket/mnist` (docs/data.md)"};
}

template <typename Field>
SettingsKey tied_key(Field field) {
  return {.name = "tied",
          .values = "an object of names by name",
          .example = {{"head.weight", "tokens.weight"}},
          .schema = {{"type", "object"}, {"additionalProperties", {{"type", "string"}}}},
          .read = reader(field),
          .write = writer(field),
          .help =
              "second names of parameters, each with the name that an .onnx file has for it: "
              "`{\"head.weight\": \"tokens.weight\"}`. The fused state dict has both"};
}

template <typename Field>
SettingsKey checkpoint_key(Field field) {
  return {
      .name = "checkpoint_every",
      .values = "a time, a number of steps or epochs, or \"never\"",
      .example = "10 min",
      .schema = {{"type", "string"}, {"pattern", checkpoint_interval_pattern()}},
      .read = reader(field),
      .write = writer(field),
      .help =
          "how often everything that the run goes on from is written, beside the training: `30 s`, `10 min`, "
          "`2 h`, `500 steps`, `1 epoch`, and at the end; or `never`. With `async` at the ends of epochs "
          "only"};
}

template <typename Field>
SettingsKey checkpoint_upload_key(Field field) {
  return with_example(
      completed<Field>({.name = "checkpoint_upload",
                        .values = "an address \"s3://BUCKET/PREFIX\"",
                        .schema = {{"type", "string"}, {"pattern", "^s3://[A-Za-z0-9._-]{3,}(/.*)?$"}},
                        .read = reader(field),
                        .write = writer(field),
                        .help =
                            "where in a bucket each checkpoint is put as well, beside the training, when it "
                            "is written and the one before is there; as many stay there as "
                            "`keep_checkpoints` says (docs/data.md). null: nowhere"}),
      "s3://bucket/runs/digits");
}

template <typename Field>
SettingsKey patterns_key(const std::string& name, Field field, const std::string& help) {
  return {.name = name,
          .values = "a list of names of parameters, e.g. [\"body.*\"]",
          .schema = {{"type", "array"}, {"items", {{"type", "string"}}}},
          .read = reader(field),
          .write = writer(field),
          .help = help};
}

std::vector<std::string> schedule_choices() {
  std::vector<std::string> names = names_of(schedule_kinds());
  names.emplace_back(kAutoSchedule);
  return names;
}

template <typename Field>
SettingsKey chunks_key(Field field) {
  SettingsKey key = with_example(
      integer_key("chunks", 2, kMostChunks, field,
                  "`interleaved`: stages of each machine of a cluster of several, the same number on all: "
                  "with more of them machines wait less and send each other more; null: 2"),
      4);
  key.leaves_out_null = true;
  return key;
}

template <typename Field>
SettingsKey micro_batches_key(Field field) {
  constexpr int kMost = 4096;
  const Json number{{"type", "integer"}, {"minimum", 1}, {"maximum", kMost}};
  const Json automatic{{"enum", Json::array({"auto"})}};
  return {
      .name = "micro_batches",
      .values = fmt::format("an integer from 1 to {}, or \"auto\"", kMost),
      .example = 1,
      .schema = {{"anyOf", Json::array({number, automatic})}},
      .read =
          [field](const Json& value, TrainingSettings& settings) {
            field(settings) = value.is_string() ? std::nullopt : std::optional(value.get<int>());
          },
      .write = [field](const TrainingSettings& settings) -> OrderedJson {
        TrainingSettings copy = settings;
        return field(copy) ? OrderedJson(*field(copy)) : OrderedJson("auto");
      },
      .help =
          "parts that a batch is cut into; at most batch_size. Sums are rounded otherwise for another "
          "number, BatchNorm takes the statistics of each part, and dropout draws anew for each. `auto`: "
          "clusterize chooses the number with which it simulates the most samples a second, for all nodes "
          "and the whole run: up to 256, with BatchNorm none that leaves a part less than 16 samples, and 1 "
          "where other operators mix the samples of a batch"};
}

std::vector<SettingsKey> make_settings_keys() {
  using S = TrainingSettings;
  return {
      model_key([](S& s) -> std::string& { return s.model; }),
      data_key([](S& s) -> std::string& { return s.data; }),
      number_key(
          "train_fraction", {0, Bound::kExcluded, 1, Bound::kIncluded},
          [](S& s) -> double& { return s.train_fraction; },
          "share of the samples that trains, rounded down; the rest validates"),
      choice_key(
          "split", {"shuffled", "in_order"}, [](S& s) -> std::string& { return s.split; },
          "which samples train: drawn with the seed, or the first of the file"),
      integer_key(
          "readers", 1, 256, [](S& s) -> int& { return s.reading.readers; },
          "threads of the Root that read samples ahead, where these do not lie in memory"),
      integer_key(
          "prefetch", 1, 1024, [](S& s) -> int& { return s.reading.prefetch; },
          "batches that they read ahead of the one that is trained"),
      integer_key(
          "cache_mib", 0, 1 << 24, [](S& s) -> std::int64_t& { return s.reading.cache_mib; },
          "memory of the Root, in MiB, for samples that were read, so that later epochs need not read them "
          "again; arrays (`numpy:`, `tensors:`) that fit into it are kept whole"),
      with_example(
          number_key(
              "clip_gradient_norm", {0, Bound::kExcluded, 1e30, Bound::kIncluded},
              [](S& s) -> std::optional<double>& { return s.clip_gradient_norm; },
              "what the norm of all gradients of a step, of every stage, is scaled down to where it is "
              "larger, as PyTorch's `clip_grad_norm_` does; `async`: of each stage's gradients by "
              "themselves, "
              "since none waits for the others'. null: gradients stay as they are"),
          1.0),
      integer_key(
          "epochs", 1, 1'000'000, [](S& s) -> int& { return s.epochs; }, "passes over the training samples"),
      integer_key(
          "batch_size", 1, 1 << 20, [](S& s) -> std::int64_t& { return s.batch_size; },
          "samples a step; an epoch's last batch may be smaller"),
      micro_batches_key([](S& s) -> std::optional<int>& { return s.micro_batches; }),
      choice_key(
          "schedule", schedule_choices(), [](S& s) -> std::string& { return s.schedule.name; },
          "order of work in the pipeline" + help_of_rows(schedule_kinds()) +
              "; `auto`: clusterize chooses `1f1b`, or `zb`, `interleaved` (of two) or `zbv` where it "
              "simulates "
              "more samples a second with it and memory allows it: to the same bits. With `interleaved` and "
              "`zbv` a machine listens at one "
              "port more for each further stage (plan.json and clusterize's output say which), and its "
              "stages share its memory"),
      with_example(
          integer_key(
              "max_staleness", 0, kMostStaleness,
              [](S& s) -> std::optional<int>& { return s.schedule.max_staleness; },
              "`async`: how many updates a stage may make between the first forward of a batch and the "
              "batch's own, which is how many batches it runs ahead and versions of its weights it keeps, "
              "besides two more; "
              "null: what one micro-batch less than there are stages from it on makes, which fills "
              "the pipeline; 0: as `1f1b`"),
          2),
      chunks_key([](S& s) -> std::optional<int>& { return s.schedule.chunks; }),
      with_example(
          integer_key(
              "in_flight", 1, kMostInFlight, [](S& s) -> std::optional<int>& { return s.schedule.in_flight; },
              "how many micro-batches the first stage of several runs forward before it needs the "
              "gradients of the oldest; one is in flight on the last stage, and between them the "
              "numbers fall evenly. null: clusterize chooses it for each stage, from how long a "
              "micro-batch is on its way and from memory; `async`: with it gradients grow older, so "
              "that more than there are stages are chosen only where `max_staleness` allows it; "
              "`interleaved`, `zbv`: clusterize always chooses, and no more than these"),
          8),
      choice_key(
          "recompute", {"none", "full", "auto"}, [](S& s) -> std::string& { return s.recompute; },
          "run forward again before backward instead of keeping activations: less memory, more time, the "
          "same bits. `auto`: on machines whose memory is too small otherwise"),
      choice_key(
          "shares", {"speed", "equal"}, [](S& s) -> std::string& { return s.shares; },
          "how several clusters share the samples of a step. `speed`: the fastest one trains batch_size, and "
          "the "
          "others as many as they are predicted to do in the same time; `equal`: each trains batch_size"),
      integer_key(
          "validate_every", 0, 1'000'000, [](S& s) -> int& { return s.validate_every; },
          "epochs from one validation to the next; 0: never"),
      choice_key(
          "precision", {"fp32", "bf16"}, [](S& s) -> std::string& { return s.precision; },
          "`bf16`: matrix products, of recurrent layers those of a multiple of 16 units, and convolutions "
          "that no faster algorithm serves, of numbers rounded to bf16, with sums and weights in fp32, where "
          "the processor has it"),
      integer_key(
          "seed", 0, kMaxExactInteger, [](S& s) -> std::uint64_t& { return s.seed; },
          "of initial weights, dropout, split and order of the samples"),
      bool_key(
          "save", [](S& s) -> bool& { return s.save; }, "write each submodel's trained weights at the end"),
      bool_key(
          "tensorboard", [](S& s) -> bool& { return s.tensorboard; },
          "the Leaf writes the curves of the run for TensorBoard, and as JSON lines, into `runs/`"),
      integer_key(
          "histograms", 0, 1'000'000, [](S& s) -> int& { return s.histograms; },
          "epochs from one histogram of each parameter to the next, which every node writes of its own, for "
          "TensorBoard; 0: never"),
      checkpoint_key([](S& s) -> std::string& { return s.checkpoint_every; }),
      integer_key(
          "keep_checkpoints", 1, 1000, [](S& s) -> int& { return s.keep_checkpoints; },
          "newest checkpoints of a run that stay; older ones are removed when a newer one is whole"),
      checkpoint_upload_key([](S& s) -> std::optional<std::string>& { return s.checkpoint_upload; }),
      number_key(
          "peer_timeout_seconds", {0, Bound::kExcluded, 86400, Bound::kIncluded},
          [](S& s) -> double& { return s.peer_timeout_seconds; },
          "a peer of which nothing was heard for longer is lost, whoever closed which connection"),
      with_example(
          number_key(
              "reconnect_grace_seconds", {0, Bound::kExcluded, 86400, Bound::kIncluded},
              [](S& s) -> std::optional<double>& { return s.reconnect_grace_seconds; },
              "a peer whose connection was closed, by its machine or by the network, is lost after this time "
              "already, unless it is back; null: after peer_timeout_seconds, as any other"),
          3.0),
      tied_key([](S& s) -> std::map<std::string, std::string>& { return s.tied; }),
      with_example(patterns_key(
                       "frozen", [](S& s) -> std::vector<std::string>& { return s.frozen; },
                       "parameters that are not trained, whatever the model's file says, by name or pattern: "
                       "`[\"body.*\"]`. They have no gradient and no optimizer state"),
                   Json::array({"body.*"})),
      with_example(
          patterns_key(
              "trained", [](S& s) -> std::vector<std::string>& { return s.trained; },
              "parameters that are trained, whatever the model's file and `frozen` say. Where the file says "
              "nothing of it, one of the two keys has to: `[\"*\"]` trains all"),
          Json::array({"head.*"})),
  };
}

}  // namespace

bool SettingsKey::accepts(const Json& value) const {
  return fits_schema(value, schema);
}

std::string SettingsKey::wanted() const {
  return example.is_null() ? values : fmt::format("{}, e.g. {}", values, example.dump());
}

std::string SettingsObject::choices() const {
  return fmt::format("one of \"{}\"", fmt::join(names_of(variants), "\", \""));
}

const std::vector<SettingsObject>& settings_objects() {
  static const std::vector<SettingsObject> objects{optimizer_object(), learning_rate_object(),
                                                   averaging_object()};
  return objects;
}

const std::vector<SettingsKey>& settings_keys() {
  static const std::vector<SettingsKey> keys = make_settings_keys();
  return keys;
}

}  // namespace rookery
