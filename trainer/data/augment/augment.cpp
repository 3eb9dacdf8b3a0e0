#include "trainer/data/augment/augment.hpp"

#include <algorithm>

#include "models/base/check.hpp"
#include "models/base/named_rows.hpp"

namespace rookery {
namespace {

AugmentKind mixup_kind() {
  return {
      .name = "mixup",
      .help =
          "the last step: each sample, with its targets of floats, becomes λ of itself and 1 - λ of another "
          "that trains, λ drawn from the beta distribution of (alpha, alpha) (arXiv 1710.09412)",
      .options =
          {{.name = "alpha", .otherwise = {0.2}, .least = 0.01, .most = 100, .help = "of the distribution"}},
      .make = nullptr};
}

}  // namespace

const std::vector<AugmentKind>& augment_kinds() {
  static const std::vector<AugmentKind> kinds = [] {
    std::vector<AugmentKind> all;
    for (const auto& family : {value_kinds(), crop_kinds(), affine_kinds(), std::vector{mixup_kind()}})
      all.insert(all.end(), family.begin(), family.end());
    return all;
  }();
  return kinds;
}

const std::vector<double>& option_of(const AugmentStep& step, const std::string& option) {
  if (const auto given = step.options.find(option); given != step.options.end()) return given->second;
  const AugmentKind* kind = find_row(augment_kinds(), step.name);
  ROOKERY_CHECK(kind != nullptr, "there is no augmentation '{}'", step.name);
  const AugmentOption* row = find_row(kind->options, option);
  ROOKERY_CHECK(row != nullptr, "'{}' has no option '{}'", step.name, option);
  return row->otherwise;
}

float between(CounterRng& rng, double least, double most) {
  return static_cast<float>(least + (most - least) * static_cast<double>(rng.next_float()));
}

}  // namespace rookery
