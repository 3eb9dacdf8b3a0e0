#include "trainer/data/augment/augmented_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>
#include <utility>

#include "models/base/check.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/named_rows.hpp"

namespace rookery {
namespace {

constexpr const char* kImages = "input";

PlaneSize planes_of(const Dataset& dataset) {
  const auto found = dataset.tensors().find(kImages);
  if (found == dataset.tensors().end() || found->second.dtype != DType::kF32 ||
      found->second.shape.rank() != 4) {
    throw ConfigError(
        "the data set has no images, f32[channels, height, width], as \"input\"; idx: has them with the "
        "option "
        "image=1, csv: with height and width");
  }
  const Shape& shape = found->second.shape;
  return {shape[1], shape[2], shape[3]};
}

// Uniform and not 0.
double positive(CounterRng& rng) {
  return (static_cast<double>(rng.next()) + 1) / 4294967297.0;
}

// Of the gamma distribution of this shape (Marsaglia and Tsang, ACM TOMS 26:3, 2000).
double draw_gamma(CounterRng& rng, double shape) {
  if (shape < 1) return draw_gamma(rng, shape + 1) * std::pow(positive(rng), 1 / shape);
  const double d = shape - 1.0 / 3;
  for (;;) {
    const double normal =
        std::sqrt(-2 * std::log(positive(rng))) * std::cos(2 * std::numbers::pi * positive(rng));
    const double v = std::pow(1 + normal / std::sqrt(9 * d), 3);
    if (v > 0 && std::log(positive(rng)) < normal * normal / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

class AugmentedDataset : public Dataset {
 public:
  AugmentedDataset(std::shared_ptr<const Dataset> dataset, const std::vector<AugmentStep>& steps)
      : dataset_(std::move(dataset)), tensors_(dataset_->tensors()), read_(planes_of(*dataset_)) {
    PlaneSize size = read_;
    most_values_ = size.values();
    for (const AugmentStep& step : steps) {
      if (mixup_)
        throw ConfigError(fmt::format("\"{}\" follows \"mixup\", which is the last step", step.name));
      if (step.name == "mixup") {
        mixup_ = option_of(step, "alpha").front();
        continue;
      }
      steps_.push_back(find_row(augment_kinds(), step.name)->make(step));
      size = steps_.back()->size_of(size);
      most_values_ = std::max(most_values_, size.values());
    }
    tensors_.at(kImages).shape = {kBatch, size.channels, size.height, size.width};
    check_mixed();
  }

  std::int64_t size() const override { return dataset_->size(); }
  const ValueTypes& tensors() const override { return tensors_; }
  bool is_continued() const override { return dataset_->is_continued(); }
  std::int64_t bytes() const override { return dataset_->bytes(); }
  std::int64_t most_bytes() const override { return dataset_->most_bytes(); }
  bool is_at_hand() const override { return false; }
  // Images as they are read, those that are mixed in, and one with what a step makes of it and between.
  std::int64_t bytes_per_reader() const override {
    return dataset_->bytes_per_reader() +
           (2 * samples_at_once() + 4) * static_cast<std::int64_t>(sizeof(float)) * most_values_;
  }
  int samples_at_once() const override { return dataset_->samples_at_once(); }
  std::optional<OwnSplit> split() const override { return dataset_->split(); }
  std::uint64_t digest() const override { return dataset_->digest(); }
  std::vector<std::string> class_names() const override { return dataset_->class_names(); }
  std::vector<std::string> warnings() const override { return dataset_->warnings(); }

  void gather(const std::string& name, std::span<const std::int64_t> ids, TensorView into) const override {
    if (name != kImages) return dataset_->gather(name, ids, into);
    fill_images(ids, nullptr, into.as<float>());
  }

  void gather_training(const std::string& name, std::span<const std::int64_t> ids, const TrainingPass& pass,
                       TensorView into) const override {
    take(name, ids, pass, into);
    if (mixup_ && into.type.dtype == DType::kF32) mix(name, ids, pass, into);
  }

 private:
  void check_mixed() const {
    if (!mixup_) return;
    const bool has_targets = std::ranges::any_of(tensors_, [](const auto& tensor) {
      return tensor.first != kImages && tensor.second.dtype == DType::kF32;
    });
    if (!has_targets) {
      throw ConfigError(
          "\"mixup\" needs targets of floats, and this data set has none: of an image folder take `answers` "
          "(two "
          "classes) or give the option probabilities=1, and name it as the loss's target");
    }
  }

  // As they are in this pass; in none (nullptr), as validation sees them.
  void fill_images(std::span<const std::int64_t> ids, const TrainingPass* pass, std::span<float> to) const {
    thread_local std::vector<float> read;
    const auto values = static_cast<std::size_t>(read_.values());
    const std::size_t each = to.size() / std::max<std::size_t>(ids.size(), 1);
    for (const auto most = static_cast<std::size_t>(samples_at_once()); !ids.empty();
         ids = ids.subspan(std::min(most, ids.size()))) {
      const auto some = ids.first(std::min(most, ids.size()));
      read.resize(some.size() * values);
      const Shape shape{std::ssize(some), read_.channels, read_.height, read_.width};
      dataset_->gather(kImages, some, {{DType::kF32, shape}, reinterpret_cast<std::byte*>(read.data())});
      for (std::size_t i = 0; i < some.size(); ++i, to = to.subspan(each)) {
        const auto& augmented = augment(std::span(read).subspan(i * values, values), some[i], pass);
        std::copy(augmented.begin(), augmented.end(), to.begin());
      }
    }
  }

  const std::vector<float>& augment(std::span<const float> image, std::int64_t id,
                                    const TrainingPass* pass) const {
    thread_local Planes planes;
    planes.size = read_;
    planes.values.assign(image.begin(), image.end());
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      std::optional<CounterRng> rng;
      if (pass != nullptr) rng = draws(*pass, id, step);
      steps_[step]->apply(planes, rng ? &*rng : nullptr);
    }
    return planes.values;
  }

  static CounterRng draws(const TrainingPass& pass, std::int64_t id, std::size_t step) {
    constexpr int kIdBits = 40;
    return {rng_key(pass.seed, fmt::format("augment/{}", step)),
            (static_cast<std::uint64_t>(pass.epoch) << kIdBits) + static_cast<std::uint64_t>(id)};
  }

  void take(const std::string& name, std::span<const std::int64_t> ids, const TrainingPass& pass,
            TensorView into) const {
    if (name == kImages) {
      fill_images(ids, &pass, into.as<float>());
    } else {
      dataset_->gather(name, ids, into);
    }
  }

  // What samples are mixed with, and their own shares.
  struct Mixtures {
    std::vector<std::int64_t> others;
    std::vector<float> own_shares;
  };

  Mixtures mixtures_of(std::span<const std::int64_t> ids, const TrainingPass& pass) const {
    Mixtures mixtures;
    for (const std::int64_t id : ids) {
      CounterRng rng = draws(pass, id, steps_.size());
      mixtures.others.push_back(pass.order[rng.next_below(static_cast<std::uint32_t>(pass.order.size()))]);
      const double one = draw_gamma(rng, *mixup_);
      const double two = draw_gamma(rng, *mixup_);
      mixtures.own_shares.push_back(static_cast<float>(one + two > 0 ? one / (one + two) : 0.5));
    }
    return mixtures;
  }

  void mix(const std::string& name, std::span<const std::int64_t> ids, const TrainingPass& pass,
           TensorView into) const {
    const Mixtures mixtures = mixtures_of(ids, pass);
    const auto to = into.as<float>();
    thread_local std::vector<float> mixed_in;
    mixed_in.resize(to.size());
    take(name, mixtures.others, pass, {into.type, reinterpret_cast<std::byte*>(mixed_in.data())});
    const std::size_t each = to.size() / std::max<std::size_t>(ids.size(), 1);
    for (std::size_t i = 0; i < to.size(); ++i) {
      const float own_share = mixtures.own_shares[i / each];
      to[i] = own_share * to[i] + (1 - own_share) * mixed_in[i];
    }
  }

  std::shared_ptr<const Dataset> dataset_;
  ValueTypes tensors_;
  PlaneSize read_;                // of the images of the data set
  std::int64_t most_values_ = 0;  // of an image between two steps
  std::vector<std::unique_ptr<Augmenter>> steps_;
  std::optional<double> mixup_;  // its alpha
};

}  // namespace

std::unique_ptr<Dataset> augmented(std::unique_ptr<Dataset> dataset, const std::vector<AugmentStep>& steps) {
  if (steps.empty()) return dataset;
  return with_context("augment",
                      [&] { return std::make_unique<AugmentedDataset>(std::move(dataset), steps); });
}

std::unique_ptr<Dataset> augmented(const Dataset& dataset, const std::vector<AugmentStep>& steps) {
  const std::shared_ptr<const Dataset> borrowed(&dataset, [](const Dataset*) {});
  return with_context("augment", [&] { return std::make_unique<AugmentedDataset>(borrowed, steps); });
}

}  // namespace rookery
