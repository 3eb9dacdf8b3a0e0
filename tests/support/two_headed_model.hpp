// A job with several inputs, outputs and losses, of which one ignores positions.
#pragma once

#include <filesystem>

#include "models/base/rng.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/state/state_dict.hpp"
#include "models/io/safetensors/safetensors.hpp"

namespace rookery {

// From "left" and "right": logits of three classes, early_out, which later layers use, too; five
// yes-or-no answers, late_out; and "left" again, copy_out.
inline Graph two_headed_model() {
  GraphBuilder b;
  const ValueId left = b.linear("left_dense", b.input("left", {6}), 8);
  const ValueId right = b.linear("right_dense", b.flatten("flat", b.input("right", {2, 2})), 8);
  ValueId x = b.relu("relu_1", b.add("sum_1", left, right));
  const ValueId early = b.linear("early", x, 3);
  x = b.relu("relu_2", b.add("sum_2", b.linear("dense_2", x, 8), b.linear("from_early", early, 8)));
  const ValueId late = b.linear("late", x, 5);
  const ValueId copy = b.linear("copy", x, 6);
  return b.finish({early, late, copy});
}

inline LossSettings two_headed_loss() {
  LossTerm early{.name = "cross_entropy", .output = "early_out", .target = "class"};
  early.ignore_index = -100;
  early.label_smoothing = 0.1;
  LossTerm late{.name = "bce_with_logits", .output = "late_out", .target = "answers", .weight = 0.5};
  late.pos_weight = {1, 2, 0.5, 3, 1};
  const LossTerm copy{.name = "mse", .output = "copy_out", .target = "left", .weight = 0.25};
  return LossSettings({early, late, copy});
}

// 50 samples, among them runs whose class is ignored.
inline void write_two_headed_data(const std::filesystem::path& path) {
  constexpr std::int64_t kSamples = 50;
  StateDict data;
  data.emplace("left", Tensor(DType::kF32, {kSamples, 6}));
  data.emplace("right", Tensor(DType::kF32, {kSamples, 2, 2}));
  data.emplace("class", Tensor(DType::kI64, {kSamples}));
  data.emplace("answers", Tensor(DType::kF32, {kSamples, 5}));
  CounterRng rng(rng_key(7, "two-headed data"), 0);
  for (const char* name : {"left", "right"}) {
    for (float& x : data.at(name).as<float>()) x = 2 * rng.next_float() - 1;
  }
  const auto left = data.at("left").as<float>();
  for (std::size_t i = 0; i < kSamples; ++i) {
    data.at("class").as<std::int64_t>()[i] = i % 10 < 4 ? -100 : left[6 * i] > 0 ? 2 : 1;
    for (std::size_t k = 0; k < 5; ++k)
      data.at("answers").as<float>()[5 * i + k] = left[6 * i + k] > 0 ? 1 : 0;
  }
  write_safetensors(path, data);
}

}  // namespace rookery
