#include "trainer/settings/settings_keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "models/graph/loss.hpp"
#include "trainer/schedule/schedule.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kMaxExactInteger = (1LL << 53) - 1;  // what JSON carries without loss (RFC 8259, 6)

// Where a setting lives, given a way to reach it.
template <typename Field>
auto reader(Field field) {
  return [field](const Json& value, TrainingSettings& settings) {
    using Type = std::remove_reference_t<decltype(field(settings))>;
    field(settings) = value.get<Type>();
  };
}

template <typename Field>
auto writer(Field field) {
  return [field](const TrainingSettings& settings) -> OrderedJson {
    TrainingSettings copy = settings;
    return field(copy);
  };
}

template <typename Field>
SettingsKey integer_key(const std::string& name, std::int64_t least, std::int64_t most, Field field,
                        const std::string& help) {
  return {.name = name,
          .values = fmt::format("an integer from {} to {}", least, most),
          .schema = {{"type", "integer"}, {"minimum", least}, {"maximum", most}},
          .accepts =
              [least, most](const Json& value) {
                if (!value.is_number_integer()) return false;
                if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{1} << 62)
                  return false;
                return value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most;
              },
          .read = reader(field),
          .write = writer(field),
          .help = help};
}

enum class Bound : bool { kIncluded, kExcluded };

struct Range {
  double least = 0;
  Bound lower = Bound::kIncluded;
  double most = 0;
  Bound upper = Bound::kIncluded;

  bool holds(double value) const {
    return std::isfinite(value) && (lower == Bound::kExcluded ? value > least : value >= least) &&
           (upper == Bound::kExcluded ? value < most : value <= most);
  }
  std::string text() const {
    return fmt::format("a number {} {} and {} {}", lower == Bound::kExcluded ? "above" : "from", least,
                       upper == Bound::kExcluded ? "below" : "up to", most);
  }
  Json schema() const {
    return {{"type", "number"},
            {lower == Bound::kExcluded ? "exclusiveMinimum" : "minimum", least},
            {upper == Bound::kExcluded ? "exclusiveMaximum" : "maximum", most}};
  }
};

template <typename Field>
SettingsKey number_key(const std::string& name, Range range, Field field, const std::string& help) {
  return {
      .name = name,
      .values = range.text(),
      .schema = range.schema(),
      .accepts = [range](const Json& value) { return value.is_number() && range.holds(value.get<double>()); },
      .read = reader(field),
      .write = writer(field),
      .help = help};
}

template <typename Field>
SettingsKey choice_key(const std::string& name, const std::vector<std::string>& choices, Field field,
                       const std::string& help) {
  return {.name = name,
          .values = fmt::format("one of \"{}\"", fmt::join(choices, "\", \"")),
          .schema = {{"type", "string"}, {"enum", choices}},
          .accepts =
              [choices](const Json& value) {
                return value.is_string() && std::ranges::count(choices, value.get<std::string>()) > 0;
              },
          .read = reader(field),
          .write = writer(field),
          .help = help};
}

template <typename Field>
SettingsKey bool_key(const std::string& name, Field field, const std::string& help) {
  return {.name = name,
          .values = "true or false",
          .schema = {{"type", "boolean"}},
          .accepts = [](const Json& value) { return value.is_boolean(); },
          .read = reader(field),
          .write = writer(field),
          .help = help};
}

template <typename Field>
SettingsKey model_key(Field field) {
  return {.name = "model",
          .values = "the name of a model",
          .schema = {{"type", "string"}, {"minLength", 1}},
          .accepts = [](const Json& value) { return value.is_string() && !value.get<std::string>().empty(); },
          .read = reader(field),
          .write = writer(field),
          .help = "the model, by its name in the zoo"};
}

template <typename Field>
SettingsKey data_key(Field field) {
  return {
      .name = "data",
      .values = "\"digits\", \"csv:FILE\" or \"idx:FOLDER\"",
      .schema = {{"type", "string"}, {"pattern", "^(digits|csv:.+|idx:.+)$"}},
      .accepts =
          [](const Json& value) {
            if (!value.is_string()) return false;
            const auto text = value.get<std::string>();
            return text == "digits" ||
                   (text.size() > 4 && (text.starts_with("csv:") || text.starts_with("idx:")));
          },
      .read = reader(field),
      .write = writer(field),
      .help =
          "the data set; files are looked for below node_data. `csv:FILE` has one sample a line, its label "
          "last (`csv:FILE?scale=S` divides the values by S); `idx:FOLDER` has one pair of IDX files"};
}

template <typename Field>
SettingsKey betas_key(Field field) {
  const Range range{0, Bound::kIncluded, 1, Bound::kExcluded};
  return {.name = "betas",
          .values = fmt::format("two numbers, each {}", range.text()),
          .schema = {{"type", "array"}, {"items", range.schema()}, {"minItems", 2}, {"maxItems", 2}},
          .accepts =
              [range](const Json& value) {
                return value.is_array() && value.size() == 2 &&
                       std::ranges::all_of(value, [&](const Json& beta) {
                         return beta.is_number() && range.holds(beta.get<double>());
                       });
              },
          .read =
              [field](const Json& value, TrainingSettings& settings) {
                field(settings).beta1 = value.at(0).get<double>();
                field(settings).beta2 = value.at(1).get<double>();
              },
          .write = [field](const TrainingSettings& settings) -> OrderedJson {
            TrainingSettings copy = settings;
            return OrderedJson::array({field(copy).beta1, field(copy).beta2});
          },
          .help = "decay of the running means of gradients and of their squares"};
}

constexpr auto kOptimizer = [](TrainingSettings& s) -> OptimizerSettings& { return s.optimizer; };

SettingsKey learning_rate_key() {
  return number_key(
      "learning_rate", {0, Bound::kExcluded, 1000, Bound::kIncluded},
      [](TrainingSettings& s) -> double& { return s.optimizer.learning_rate; }, "size of a step");
}

SettingsKey weight_decay_key() {
  return number_key(
      "weight_decay", {0, Bound::kIncluded, 1000, Bound::kIncluded},
      [](TrainingSettings& s) -> double& { return s.optimizer.weight_decay; },
      "times the weights, added to the gradients");
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
      choice_key(
          "loss", loss_names(), [](S& s) -> std::string& { return s.loss; },
          "`mse`: mean squared error to one-hot targets; `cross_entropy`: of softmax, for models that end in "
          "logits"),
      integer_key(
          "epochs", 1, 1'000'000, [](S& s) -> int& { return s.epochs; }, "passes over the training samples"),
      integer_key(
          "batch_size", 1, 1 << 20, [](S& s) -> std::int64_t& { return s.batch_size; },
          "samples a step; an epoch's last batch may be smaller"),
      integer_key(
          "micro_batches", 1, 4096, [](S& s) -> int& { return s.micro_batches; },
          "parts that a batch is cut into; at most batch_size"),
      choice_key(
          "schedule", schedule_names(), [](S& s) -> std::string& { return s.schedule; },
          "order of work in the pipeline; `1f1b`: one forward, one backward, one update a batch"),
      integer_key(
          "validate_every", 0, 1'000'000, [](S& s) -> int& { return s.validate_every; },
          "epochs from one validation to the next; 0: never"),
      integer_key(
          "seed", 0, kMaxExactInteger, [](S& s) -> std::uint64_t& { return s.seed; },
          "of initial weights, dropout, split and order of the samples"),
      bool_key(
          "save", [](S& s) -> bool& { return s.save; }, "write each submodel's trained weights at the end"),
      number_key(
          "peer_timeout_seconds", {0, Bound::kExcluded, 86400, Bound::kIncluded},
          [](S& s) -> double& { return s.peer_timeout_seconds; }, "a peer that is silent for longer is lost"),
  };
}

std::vector<OptimizerKeys> make_optimizer_keys() {
  return {
      {"adam",
       {learning_rate_key(), betas_key(kOptimizer),
        number_key(
            "epsilon", {0, Bound::kExcluded, 1, Bound::kIncluded},
            [](TrainingSettings& s) -> double& { return s.optimizer.epsilon; }, "keeps the divisor above 0"),
        weight_decay_key()}},
      {"sgd",
       {learning_rate_key(),
        number_key(
            "momentum", {0, Bound::kIncluded, 1, Bound::kExcluded},
            [](TrainingSettings& s) -> double& { return s.optimizer.momentum; },
            "share of the last step that is kept"),
        weight_decay_key()}},
  };
}

}  // namespace

const std::vector<SettingsKey>& settings_keys() {
  static const std::vector<SettingsKey> keys = make_settings_keys();
  return keys;
}

const std::vector<OptimizerKeys>& optimizer_keys() {
  static const std::vector<OptimizerKeys> keys = make_optimizer_keys();
  return keys;
}

}  // namespace rookery
