#include "trainer/settings/settings.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/files/problems.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/named_rows.hpp"
#include "trainer/settings/keys/settings_keys.hpp"

namespace rookery {
namespace {

// Reads `value` if the table has its key; false if it has not.
bool read_key(const std::string& name, const Json& value, const std::vector<SettingsKey>& keys,
              const std::string& prefix, TrainingSettings& settings, Problems& problems) {
  const SettingsKey* key = find_row(keys, name);
  if (key == nullptr) return false;
  if (key->accepts(value)) {
    key->read(value, settings);
  } else {
    problems.add(prefix + name, fmt::format("{} is not {}", shown(value), key->wanted()));
  }
  return true;
}

// By its name, where its defaults will do, or an object with its keys. `path`: of it in the file.
void read_object(const SettingsObject& object, const std::string& path, const Json& value,
                 TrainingSettings& settings, Problems& problems) {
  if (!value.is_string() && !value.is_object()) {
    const std::string& example = object.variants.front().name;
    problems.add(path, fmt::format("{} is not a name, e.g. \"{}\", or an object, e.g. {{\"{}\": \"{}\"}}",
                                   shown(value), example, object.discriminator, example));
    return;
  }
  const bool is_name = value.is_string();
  const Json name = is_name ? value : value.value(object.discriminator, Json());
  const std::string place = is_name ? path : path + "/" + object.discriminator;
  const SettingsVariant* variant =
      name.is_string() ? find_row(object.variants, name.get<std::string>()) : nullptr;
  if (variant == nullptr) {
    problems.add(place, name.is_null() ? "is missing: give " + object.choices()
                                       : fmt::format("{} is not {}", shown(name), object.choices()));
    return;
  }
  object.choose(variant->name, settings);
  if (is_name) return;
  for (const auto& [key, of_key] : value.items()) {
    if (key == object.discriminator || read_key(key, of_key, variant->keys, path + "/", settings, problems))
      continue;
    std::vector<std::string> known = names_of(variant->keys);
    known.insert(known.begin(), object.discriminator);
    problems.add(fmt::format("{}/{}", path, key),
                 fmt::format("\"{}\" has no such key; it has {}", variant->name, fmt::join(known, ", ")));
  }
}

void check_plateau(const TrainingSettings& settings, Problems& problems) {
  const LearningRateSchedule& schedule = settings.learning_rate_schedule;
  if (schedule.name != "plateau") return;
  const std::string place = "learning_rate_schedule/metric";
  const std::string metric = fmt::format("\"{}\"", schedule.metric);
  if (schedule.metric != "training_loss" && settings.validate_every == 0) {
    problems.add(place, metric + " needs validation: give validate_every, or \"metric\": \"training_loss\"");
  }
  if (schedule.metric != "training_loss" && settings.train_fraction == 1) {
    problems.add(place, metric +
                            " needs samples to validate with: give a train_fraction below 1, or "
                            "\"metric\": \"training_loss\"");
  }
  const char* const better = schedule.metric == "validation_accuracy" ? "max" : "min";
  if (schedule.mode != better) {
    problems.add(place, fmt::format("{} gets better the other way: give \"mode\": \"{}\"", metric, better));
  }
}

LossTerm read_loss_entry(const std::string& path, const Json& value, Problems& problems) {
  TrainingSettings settings;
  if (!value.is_object() || !value.contains("loss")) {
    problems.add(
        path,
        fmt::format("{} is not an object with a loss, e.g. {{\"output\": \"logits\", \"loss\": \"{}\"}}",
                    shown(value), loss_object().variants.front().name));
    return settings.loss.terms.front();
  }
  read_object(loss_object(), path + "/loss", value.at("loss"), settings, problems);
  for (const auto& [key, of_key] : value.items()) {
    if (key == "loss" || read_key(key, of_key, loss_entry_keys(), path + "/", settings, problems)) continue;
    std::vector<std::string> known = names_of(loss_entry_keys());
    known.insert(known.begin(), "loss");
    problems.add_unknown_key(path, key, known);
  }
  return settings.loss.terms.front();
}

void check_loss_entry(const std::string& path, const LossTerm& term, const std::vector<LossTerm>& before,
                      Problems& problems) {
  const auto same = [&](const LossTerm& other) {
    return other.name == term.name && other.output == term.output;
  };
  if (term.output.empty()) {
    problems.add(
        path + "/output",
        "is missing: each of several losses says which output of the model it measures, e.g. \"logits\"");
  } else if (std::ranges::any_of(before, same)) {
    problems.add(path, fmt::format("\"{}\" of \"{}\" is there before: give one with both weights", term.name,
                                   term.output));
  }
}

void read_loss(const Json& value, TrainingSettings& settings, Problems& problems) {
  if (!value.is_array()) {
    read_object(loss_object(), "loss", value, settings, problems);
    return;
  }
  if (value.empty()) problems.add("loss", "[] has no loss: give one, e.g. [{\"loss\": \"mse\"}]");
  std::vector<LossTerm> terms;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string path = fmt::format("loss/{}", i);
    LossTerm term = read_loss_entry(path, value[i], problems);
    if (value.size() > 1) check_loss_entry(path, term, terms, problems);
    terms.push_back(std::move(term));
  }
  if (!terms.empty()) settings.loss = LossSettings(std::move(terms));
}

void read_augment(const Json& value, TrainingSettings& settings, Problems& problems) {
  if (!value.is_array()) {
    problems.add(kAugmentKey,
                 fmt::format("{} is not a list of steps, e.g. [\"horizontal_flip\"]", shown(value)));
    return;
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    TrainingSettings one;
    read_object(augment_object(), fmt::format("{}/{}", kAugmentKey, i), value[i], one, problems);
    settings.augment.insert(settings.augment.end(), one.augment.begin(), one.augment.end());
  }
}

void read_transport(const Json& value, TrainingSettings& settings, Problems& problems) {
  if (!value.is_object()) {
    problems.add(kTransportKey,
                 fmt::format("{} is not an object, e.g. {{\"activations\": \"fp16\"}}", shown(value)));
    return;
  }
  const std::string path = kTransportKey;
  for (const auto& [key, of_key] : value.items()) {
    if (!read_key(key, of_key, transport_keys(), path + "/", settings, problems))
      problems.add_unknown_key(path, key, names_of(transport_keys()));
  }
}

OrderedJson to_json(const SettingsObject& object, const TrainingSettings& settings) {
  const std::string name = object.chosen(settings);
  const SettingsVariant* variant = find_row(object.variants, name);
  if (variant == nullptr) {
    throw ConfigError(
        fmt::format("{}/{}: \"{}\" is not {}", object.name, object.discriminator, name, object.choices()));
  }
  OrderedJson document;
  document[object.discriminator] = name;
  for (const SettingsKey& key : variant->keys) document[key.name] = key.write(settings);
  return document;
}

// A name where nothing else is said, as people write it.
OrderedJson to_json(const LossSettings& loss) {
  OrderedJson entries = OrderedJson::array();
  for (const LossTerm& term : loss.terms) {
    TrainingSettings settings;
    settings.loss = LossSettings(std::vector<LossTerm>{term});
    LossTerm options = term;  // without what an entry of the list has
    options.output = LossTerm().output;
    options.target = LossTerm().target;
    options.weight = LossTerm().weight;
    OrderedJson one =
        options == LossTerm{.name = term.name} && find_row(loss_object().variants, term.name) != nullptr
            ? OrderedJson(term.name)
            : to_json(loss_object(), settings);
    if (loss.terms.size() == 1 && options == term) return one;
    OrderedJson entry;
    entry["loss"] = std::move(one);
    for (const SettingsKey& key : loss_entry_keys()) entry[key.name] = key.write(settings);
    entries.push_back(std::move(entry));
  }
  return entries;
}

OrderedJson to_json(const std::vector<AugmentStep>& augment) {
  OrderedJson entries = OrderedJson::array();
  for (const AugmentStep& step : augment) {
    TrainingSettings one;
    one.augment = {step};
    entries.push_back(to_json(augment_object(), one));
  }
  return entries;
}

void check_averaging(const AveragingSettings& averaging, Problems& problems) {
  const std::int64_t every = averaging.every.value_or(std::numeric_limits<std::int64_t>::max());
  const auto check = [&](const char* key, std::int64_t value) {
    if (value > every)
      problems.add(fmt::format("averaging/{}", key),
                   fmt::format("{} is more than the {} updates from round to round (every)", value, every));
  };
  check("fragments", averaging.fragments);
  check("overlap", averaging.overlapped_updates());
}

OrderedJson transport_json(const TrainingSettings& settings) {
  OrderedJson document;
  for (const SettingsKey& key : transport_keys()) document[key.name] = key.write(settings);
  return document;
}

// Checks what no key alone tells.
void check_together(const TrainingSettings& settings, Problems& problems) {
  if (const int micro_batches = settings.micro_batches.value_or(1); micro_batches > settings.batch_size) {
    problems.add("micro_batches", fmt::format("{} is more than the {} samples of a batch (batch_size)",
                                              micro_batches, settings.batch_size));
  }
  const OptimizerSettings& optimizer = settings.optimizer;
  if (optimizer.nesterov && (optimizer.momentum == 0 || optimizer.dampening != 0)) {
    problems.add("optimizer/nesterov", "needs a momentum above 0 and a dampening of 0");
  }
  check_averaging(settings.averaging, problems);
  check_plateau(settings, problems);
}

// Nothing else would tell that such a key has no effect. Of train.json alone: metadata and checkpoints may
// have it.
void check_keys_of_schedules(const ScheduleSettings& schedule, Problems& problems) {
  const auto check = [&](const char* key, const std::optional<int>& number, const char* of) {
    if (!number || schedule.name == of) return;
    problems.add(key,
                 fmt::format("{} has no effect with \"schedule\": \"{}\": take it out, or give \"schedule\": "
                             "\"{}\"",
                             *number, schedule.name, of));
  };
  check("chunks", schedule.chunks, "interleaved");
  check("max_staleness", schedule.max_staleness, "async");
}

// A key of train.json that nothing has read.
void add_unknown_key(const std::string& name, const Json& value, Problems& problems) {
  for (const SettingsObject& object : settings_objects()) {
    for (const SettingsVariant& variant : object.variants) {
      if (find_row(variant.keys, name) == nullptr) continue;
      problems.add(name,
                   fmt::format("it is a key of {}: give \"{}\": {{\"{}\": \"{}\", \"{}\": {}}}", object.name,
                               object.name, object.discriminator, variant.name, name, shown(value)));
      return;
    }
  }
  std::vector<std::string> known = names_of(settings_keys());
  known.push_back(loss_object().name);
  known.emplace_back(kAugmentKey);
  known.emplace_back(kTransportKey);
  for (const SettingsObject& object : settings_objects()) known.push_back(object.name);
  problems.add_unknown_key("", name, known);
}

}  // namespace

TrainingSettings settings_from_json(const Json& document, std::string_view file) {
  if (!document.is_object()) {
    throw ConfigError(
        fmt::format("{}: {} is not an object of settings, e.g. {{\"epochs\": 100}}", file, shown(document)));
  }
  TrainingSettings settings;
  Problems problems;
  for (const auto& [name, value] : document.items()) {
    const SettingsObject* object = find_row(settings_objects(), name);
    if (name == loss_object().name) {
      read_loss(value, settings, problems);
    } else if (name == kAugmentKey) {
      read_augment(value, settings, problems);
    } else if (name == kTransportKey) {
      read_transport(value, settings, problems);
    } else if (object != nullptr) {
      read_object(*object, name, value, settings, problems);
    } else if (!read_key(name, value, settings_keys(), "", settings, problems)) {
      add_unknown_key(name, value, problems);
    }
  }
  check_together(settings, problems);
  problems.throw_if_any(file);
  return settings;
}

OrderedJson to_json(const TrainingSettings& settings) {
  OrderedJson document;
  for (const SettingsKey& key : settings_keys()) {
    OrderedJson value = key.write(settings);
    if (!key.leaves_out_null || !value.is_null()) document[key.name] = std::move(value);
  }
  document[loss_object().name] = to_json(settings.loss);
  document[kAugmentKey] = to_json(settings.augment);
  document[kTransportKey] = transport_json(settings);
  for (const SettingsObject& object : settings_objects()) document[object.name] = to_json(object, settings);
  return document;
}

std::vector<std::string> undecided(const TrainingSettings& settings) {
  std::vector<std::string> keys;
  if (!settings.micro_batches) keys.emplace_back("micro_batches");
  if (settings.schedule.name == kAutoSchedule) keys.emplace_back("schedule");
  if (settings.averaging.mode == "auto") keys.emplace_back("averaging/mode");
  return keys;
}

TrainingSettings read_settings(const std::filesystem::path& train_json) {
  TrainingSettings settings = settings_from_json(read_json(train_json), train_json.string());
  Problems problems;
  check_keys_of_schedules(settings.schedule, problems);
  problems.throw_if_any(train_json.string());
  return settings;
}

std::string to_text(const LossSettings& loss) {
  const OrderedJson document = to_json(loss);
  return document.is_string() ? document.get<std::string>() : document.dump();
}

LossSettings loss_from_text(const std::string& text) {
  const bool is_json = text.starts_with('{') || text.starts_with('[');
  const Json value = is_json ? Json::parse(text, nullptr, false) : Json(text);
  if (value.is_discarded()) throw ConfigError(fmt::format("loss: '{}' is not JSON", text));
  Json document;
  document["loss"] = value;
  return settings_from_json(document, "its metadata").loss;
}

std::string to_text(const std::vector<AugmentStep>& augment) {
  return to_json(augment).dump();
}

std::vector<AugmentStep> augment_from_text(const std::string& text) {
  Json document;
  document[kAugmentKey] = Json::parse(text, nullptr, false);
  if (document[kAugmentKey].is_discarded()) throw ConfigError(fmt::format("augment: '{}' is not JSON", text));
  return settings_from_json(document, "its metadata").augment;
}

}  // namespace rookery
