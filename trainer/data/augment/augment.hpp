// What is done to images before a model sees them: a list of steps, of which those that draw at random are
// for training only. Each kind of step is a row of a table, which the settings, their help and their schema
// read.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/base/rng.hpp"

namespace rookery {

// An image as models have it: plane after plane, row after row.
struct PlaneSize {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t values() const { return channels * height * width; }
  bool operator==(const PlaneSize&) const = default;
};
struct Planes {
  PlaneSize size;
  std::vector<float> values;
};

// A step as train.json has it. Options that are not there have their defaults.
struct AugmentStep {
  std::string name;  // of a row of augment_kinds()
  std::map<std::string, std::vector<double>> options;
  bool operator==(const AugmentStep&) const = default;
};

// One thread at a time may call apply() with the same `image`.
class Augmenter {
 public:
  virtual ~Augmenter() = default;
  // What it makes of an image of this size. ConfigError where it can make nothing of it.
  virtual PlaneSize size_of(PlaneSize size) const { return size; }
  // Changes the image. `rng` draws for this sample in this epoch; none: nothing random is done.
  virtual void apply(Planes& image, CounterRng* rng) const = 0;
};

// What a row of the table has as `make`: a Step is an Augmenter that reads its options.
template <typename Step>
std::unique_ptr<Augmenter> make_augmenter(const AugmentStep& step) {
  return std::make_unique<Step>(step);
}

struct AugmentOption {
  std::string name;
  std::vector<double> otherwise;  // the default, which may be a list
  double least = 0;
  double most = 0;
  std::string help;
  bool is_whole = false;    // an integer
  std::size_t numbers = 1;  // how many there are at most: more than one may be given as a list
};

struct AugmentKind {
  std::string name;
  std::string help;
  std::vector<AugmentOption> options;
  // None for `mixup`, which is of two samples (augmented_dataset.cpp).
  std::unique_ptr<Augmenter> (*make)(const AugmentStep& step);
};

const std::vector<AugmentKind>& augment_kinds();
// The rows, by the file that has them.
std::vector<AugmentKind> value_kinds();
std::vector<AugmentKind> crop_kinds();
std::vector<AugmentKind> affine_kinds();

// The numbers of an option, or its default.
const std::vector<double>& option_of(const AugmentStep& step, const std::string& option);

// Uniform between the two.
float between(CounterRng& rng, double least, double most);

}  // namespace rookery
