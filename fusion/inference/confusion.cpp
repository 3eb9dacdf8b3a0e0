#include "fusion/inference/confusion.hpp"

#include <algorithm>

#include "fusion/inference/whole_model.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/feed/sample_source.hpp"

namespace rookery {
namespace {

std::optional<double> share(std::int64_t right, std::int64_t all) {
  if (all == 0) return std::nullopt;
  return static_cast<double>(right) / static_cast<double>(all);
}

// How the first loss tells classes: by which output, against which target.
struct Classified {
  std::string output, target;
  std::int64_t classes = 0;
  bool is_binary = false;  // one logit, above 0 for the second class
};

std::optional<Classified> classified(const Graph& model, const Dataset& dataset, const LossSettings& loss) {
  const LossTerm& term = loss.terms.front();
  const auto target = dataset.tensors().find(term.target);
  if (target == dataset.tensors().end() || model.outputs().empty()) return std::nullopt;
  const ValueId id = term.output.empty() ? model.outputs().front() : model.at(term.output);
  const TensorType output = model.types(1)[id];
  if (output.dtype != DType::kF32 || output.shape.rank() != 2) return std::nullopt;
  Classified found{.output = model.value(id).name, .target = term.target, .classes = output.shape[1]};
  const TensorType one{target->second.dtype, target->second.shape.with_batch(1)};
  if (one.dtype == DType::kI64 && one.shape.rank() == 1 && found.classes > 1) return found;
  if (one.dtype != DType::kF32 || one.shape != output.shape || found.classes != 1 ||
      term.name != "bce_with_logits")
    return std::nullopt;
  found.classes = 2;
  found.is_binary = true;
  return found;
}

std::vector<std::string> names_of_classes(const Dataset& dataset, std::int64_t classes) {
  std::vector<std::string> names = dataset.class_names();
  for (std::int64_t i = std::ssize(names); i < classes; ++i) names.push_back(fmt::to_string(i));
  names.resize(classes);
  return names;
}

// The class of each sample that the data set says.
std::vector<std::int64_t> labels_of(const Dataset& dataset, const Classified& by,
                                    std::span<const std::int64_t> ids) {
  const TensorType& type = dataset.tensors().at(by.target);
  Tensor tensor(type.dtype, type.shape.with_batch(std::ssize(ids)));
  dataset.gather(by.target, ids, tensor.view());
  std::vector<std::int64_t> labels(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    labels[i] =
        by.is_binary ? static_cast<std::int64_t>(tensor.as<float>()[i] > 0.5F) : tensor.as<std::int64_t>()[i];
  }
  return labels;
}

// The class that the model says for the sample whose output this is.
std::int64_t answer_of(std::span<const float> output, bool is_binary) {
  if (is_binary) return output[0] > 0 ? 1 : 0;
  return std::ranges::max_element(output) - output.begin();
}

}  // namespace

std::int64_t Confusion::samples(std::size_t of) const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) sum += count(of, i);
  return sum;
}

std::int64_t Confusion::answers(std::size_t taken_for) const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) sum += count(i, taken_for);
  return sum;
}

std::optional<double> Confusion::recall(std::size_t of) const {
  return share(count(of, of), samples(of));
}

std::optional<double> Confusion::precision(std::size_t taken_for) const {
  return share(count(taken_for, taken_for), answers(taken_for));
}

std::optional<Confusion> confusion_of(const Graph& model, const StateDict& state, const Dataset& dataset,
                                      const LossSettings& loss, std::span<const std::int64_t> ids,
                                      std::int64_t batch) {
  const std::optional<Classified> by = classified(model, dataset, loss);
  if (!by) return std::nullopt;
  const auto ignored = loss.terms.front().ignore_index;
  Confusion confusion{.classes = names_of_classes(dataset, by->classes), .counts = {}};
  confusion.counts.resize(by->classes * by->classes);
  WholeModel whole(model, state, std::ssize(ids), batch);
  const SampleSource source(dataset, model, loss);
  whole.run(source, ids, [&](std::span<const std::int64_t> samples, const MicroBatch& part) {
    const std::vector<std::int64_t> labels = labels_of(dataset, *by, samples);
    const auto values = whole.output(by->output, part).as<float>();
    const std::size_t width = values.size() / samples.size();
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (labels[i] == ignored) continue;
      if (labels[i] < 0 || labels[i] >= by->classes)
        throw DataError(fmt::format("sample {} has the label {}, the model has {} classes", samples[i],
                                    labels[i], by->classes));
      const std::int64_t answer = answer_of(values.subspan(i * width, width), by->is_binary);
      ++confusion.counts[labels[i] * by->classes + answer];
    }
  });
  return confusion;
}

}  // namespace rookery
