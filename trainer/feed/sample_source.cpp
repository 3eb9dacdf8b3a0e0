#include "trainer/feed/sample_source.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {
namespace {

constexpr std::size_t kPart = 4096;  // samples

// Calls action(first id's place, labels) for parts of `ids`.
template <typename Action>
void for_labels(const Dataset& dataset, const std::string& target, std::span<const std::int64_t> ids,
                Action&& action) {
  const TensorType type = dataset.tensors().at(target);
  for (std::size_t first = 0; first < ids.size(); first += kPart) {
    const auto part = ids.subspan(first, std::min(kPart, ids.size() - first));
    Tensor labels(type.dtype, type.shape.with_batch(std::ssize(part)));
    dataset.gather(target, part, labels.view());
    action(first, labels.as<std::int64_t>());
  }
}

bool fits(const TensorType& given, const TensorType& wanted) {
  if (given.dtype != wanted.dtype) return false;
  if (given.shape == wanted.shape) return true;
  return given.shape.rank() <= 2 && wanted.shape.rank() > 0 && wanted.shape[0] == kBatch &&
         given.shape.with_batch(1).elements() == wanted.shape.with_batch(1).elements();
}

std::string names_of(const ValueTypes& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, type] : tensors) names.push_back(fmt::format("{} {}", name, type.to_string()));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

ValueTypes target_types(const Dataset& dataset, const LossSettings& loss) {
  ValueTypes types;
  for (const LossTerm& term : loss.terms) {
    const auto found = dataset.tensors().find(term.target);
    if (found != dataset.tensors().end()) types.insert(*found);
  }
  return types;
}

SampleSource::SampleSource(const Dataset& dataset, const Graph& graph, const LossSettings& loss)
    : dataset_(dataset) {
  const ValueTypes& tensors = dataset.tensors();
  std::set<std::string> targets;
  for (const LossTerm& term : loss.terms) {
    targets.insert(term.target);
    if (term.ignore_index) counted_[counted_value(loss, term)] = {term.target, *term.ignore_index};
  }
  std::vector<std::string> wanted;  // inputs that are no targets
  for (const ValueId id : graph.inputs()) {
    const std::string& name = graph.value(id).name;
    if (name == kSampleIds || counted_.contains(name)) continue;
    tensors_.emplace(name, name);
    if (!targets.contains(name)) wanted.push_back(name);
  }
  std::vector<std::string> offered;
  for (const auto& [name, type] : tensors) {
    if (!targets.contains(name)) offered.push_back(name);
  }
  if (wanted.size() == 1 && offered.size() == 1) tensors_[wanted.front()] = offered.front();
  for (const auto& [input, name] : tensors_) {
    const TensorType& type = graph.value(graph.at(input)).type;
    const auto found = tensors.find(name);
    const char* role = targets.contains(input) ? "the target" : "the model's input";
    if (found == tensors.end()) {
      throw ConfigError(
          fmt::format("the data set has no tensor for {} '{}'; it has: {}", role, input, names_of(tensors)));
    }
    if (!fits(found->second, type)) {
      throw ConfigError(fmt::format("{} '{}' is {}, but '{}' of the data set is {}", role, input,
                                    type.to_string(), name, found->second.to_string()));
    }
  }
}

void SampleSource::set_batch(std::span<const std::int64_t> ids) {
  for (auto& entry : counted_) {
    auto& counted = entry.second;
    counted.positions = 0;
    for_labels(dataset_, counted.target, ids, [&](std::size_t, std::span<const std::int64_t> labels) {
      counted.positions += std::ssize(labels) - std::ranges::count(labels, counted.ignored);
    });
  }
}

std::optional<std::string> SampleSource::tensor_of(const std::string& value) const {
  const auto found = tensors_.find(value);
  return found == tensors_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> SampleSource::tensors() const {
  std::set<std::string> names;
  for (const auto& [input, name] : tensors_) names.insert(name);
  return {names.begin(), names.end()};
}

void SampleSource::fill(const std::string& value, std::span<const std::int64_t> ids, TensorView into) const {
  if (value == kSampleIds) {
    std::ranges::copy(ids, into.as<std::int64_t>().begin());
  } else if (const auto counted = counted_.find(value); counted != counted_.end()) {
    into.as<std::int64_t>()[0] = counted->second.positions;
  } else {
    dataset_.gather(tensors_.at(value), ids, into);
  }
}

void check_labels(const Dataset& dataset, const Graph& graph) {
  std::vector<std::int64_t> ids(dataset.size());
  std::iota(ids.begin(), ids.end(), 0);
  for (const LossOp& loss : losses_of(graph)) {
    if (!loss.hits) continue;
    for_labels(dataset, loss.target, ids, [&](std::size_t first, std::span<const std::int64_t> labels) {
      const auto bad = std::ranges::find_if(labels, [&](std::int64_t label) {
        return (label < 0 || label >= loss.classes) && label != loss.ignored;
      });
      if (bad == labels.end()) return;
      const std::size_t samples = std::min(ids.size() - first, kPart);
      const std::size_t each = std::max<std::size_t>(labels.size() / samples, 1);
      throw DataError(fmt::format("sample {} has {} {}, but the model's output has {} classes, 0 to {}",
                                  first + static_cast<std::size_t>(bad - labels.begin()) / each, loss.target,
                                  *bad, loss.classes, loss.classes - 1));
    });
  }
}

}  // namespace rookery
