#include "trainer/progress/run_state.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/files/json_file.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "trainer/settings/batch_sizes.hpp"

namespace rookery {
namespace {

// JSON has no NaN and no infinity, which the losses of a run may be.
OrderedJson from_number(double number) {
  return std::isfinite(number) ? OrderedJson(number) : OrderedJson(fmt::format("{}", number));
}

double to_number(const Json& json) {
  return json.is_string() ? std::stod(json.get<std::string>()) : json.get<double>();
}

}  // namespace

RunState going_on(RunState from, const TrainingSettings& settings, std::int64_t batch,
                  std::int64_t train_samples) {
  const double rate = settings.optimizer.learning_rate;
  if (from.base_rate != rate) from.base_rate = from.learning_rate = rate;
  const bool is_within = from.samples > 0 && from.samples != train_samples;
  if (is_within && (from.samples > train_samples || from.samples % batch != 0)) {
    throw ConfigError(
        fmt::format("batch_size: the run goes on after sample {} of epoch {}, which no batch of {} of {} "
                    "samples ends with: "
                    "keep batch_size and data, and of several clusters the machines, until the epoch's end",
                    from.samples, from.epoch + 1, batch, train_samples));
  }
  if (!is_synchronous(settings.schedule) && is_within) {
    throw ConfigError(fmt::format(
        "schedule: the run goes on within epoch {}, where `async` cannot begin: keep the schedule until the "
        "epoch's end",
        from.epoch + 1));
  }
  if (from.epoch > settings.epochs) {
    throw ConfigError(fmt::format("epochs: the run has trained {} already: ask for more than {}", from.epoch,
                                  settings.epochs));
  }
  return from;
}

double epoch_loss_of(const RunState& from, const ClusterShares& shares) {
  if (from.epoch_losses.empty() || from.samples == 0) return from.epoch_loss;
  double whole = 0;
  bool are_same = std::ssize(from.epoch_losses) == shares.clusters();
  for (int cluster = 0; cluster < static_cast<int>(from.epoch_losses.size()); ++cluster) {
    const LossSum& sum = from.epoch_losses[cluster];
    whole += sum.loss;
    are_same = are_same && sum.samples == shares.trained_of(cluster, from.samples);
  }
  if (are_same) return from.epoch_losses[shares.cluster].loss;
  return whole * static_cast<double>(shares.trained_of(shares.cluster, from.samples)) /
         static_cast<double>(from.samples);
}

std::int64_t steps_ahead(const RunState& from, std::int64_t batch, std::int64_t train_samples) {
  const std::int64_t within = batches_per_epoch(batch, from.samples);
  return from.step - (from.epoch * batches_per_epoch(batch, train_samples) + within);
}

std::string to_text(const RunState& state) {
  OrderedJson json{{"step", state.step},
                   {"epoch", state.epoch},
                   {"samples", state.samples},
                   {"validation_batches", state.validation_batches},
                   {"validations", state.validations},
                   {"base_rate", state.base_rate},
                   {"learning_rate", state.learning_rate},
                   {"sample_digest", fmt::format("{:016x}", state.sample_digest)},
                   {"epoch_loss", from_number(state.epoch_loss)}};
  if (state.optimizer_from != 0) json["optimizer_from"] = state.optimizer_from;
  for (const LossSum& sum : state.epoch_losses)
    json["epoch_losses"].push_back({{"loss", from_number(sum.loss)}, {"samples", sum.samples}});
  json["plateau"] = {{"best", state.plateau.best ? from_number(*state.plateau.best) : OrderedJson()},
                     {"bad_epochs", state.plateau.bad_epochs},
                     {"cooldown_left", state.plateau.cooldown_left}};
  return json.dump();
}

RunState run_state_from(const std::string& text) {
  try {
    const auto integer = [](const Json& of, const char* key) {
      constexpr std::int64_t kMost = std::int64_t{1} << 50;
      const auto value = integer_from<std::int64_t>(of.at(key));
      if (value < 0 || value > kMost) throw std::out_of_range(fmt::format("{}: {}", key, value));
      return value;
    };
    const Json json = Json::parse(text);
    const Json& plateau = json.at("plateau");
    std::vector<LossSum> losses;
    for (const Json& sum : json.value("epoch_losses", Json::array()))
      losses.push_back({to_number(sum.at("loss")), integer(sum, "samples")});
    return {.step = integer(json, "step"),
            .epoch = integer(json, "epoch"),
            .samples = integer(json, "samples"),
            .validation_batches = integer(json, "validation_batches"),
            .validations = integer(json, "validations"),
            .optimizer_from = json.contains("optimizer_from") ? integer(json, "optimizer_from") : 0,
            .base_rate = json.at("base_rate").get<double>(),
            .learning_rate = json.at("learning_rate").get<double>(),
            .sample_digest = std::stoull(json.at("sample_digest").get<std::string>(), nullptr, 16),
            .epoch_loss = to_number(json.at("epoch_loss")),
            .epoch_losses = std::move(losses),
            .plateau = {.best = plateau.at("best").is_null() ? std::nullopt
                                                             : std::optional(to_number(plateau.at("best"))),
                        .bad_epochs = integer(plateau, "bad_epochs"),
                        .cooldown_left = integer(plateau, "cooldown_left")}};
  } catch (const Json::exception& error) {
    throw DataError(fmt::format("the place that the run has reached cannot be read: {}", error.what()));
  } catch (const std::logic_error& error) {
    throw DataError(fmt::format("the place that the run has reached cannot be read: {}", error.what()));
  }
}

}  // namespace rookery
