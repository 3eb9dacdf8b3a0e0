// The models that benchmarks measure, by the names of bench/training_step.py.
#pragma once

#include <string>

#include "models/graph/ops/builder.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {

// torch.nn.LSTM of two layers over 64 steps, and a linear layer after the last step.
inline Graph measured_lstm() {
  constexpr std::int64_t kSteps = 64;
  constexpr std::int64_t kWidth = 256;
  GraphBuilder build;
  ValueId x = build.transpose("steps", build.input("input", {kSteps, kWidth}), {1, 0, 2});
  for (const int layer : {0, 1}) x = build.recurrent("rnn", "LSTM", x, kWidth, {.layer = layer})[0];
  x = build.slice("last", build.transpose("samples", x, {1, 0, 2}), 1, -1, kSteps);
  return build.finish(build.linear("head", build.reshape("flat", x, {0, kWidth}), 10));
}

// A model of the zoo, at the size that is measured where it is not the zoo's.
inline Graph measured_model(const std::string& name) {
  if (name == "vgg11") return vgg11({.image_size = 32, .classes = 10, .hidden = 0});
  if (name == "gpt_nano") return gpt();
  if (name == "resnet18") return resnet18({.image_size = 64});
  if (name == "resnet50") return resnet50({.image_size = 224});
  if (name == "transformer_block") {
    return gpt_block({.length = 128, .layers = 12, .heads = 12, .width = 768, .dropout = 0});
  }
  if (name == "lstm") return measured_lstm();
  if (name == "bert_base") return bert();
  return zoo_model(name);
}

inline LossSettings measured_loss(const std::string& name) {
  if (name == "cnn_net" || name == "transformer_block") return "mse";
  if (name != "bert_base") return "cross_entropy";
  return LossSettings(
      {{.name = "cross_entropy", .output = "prediction_logits"},
       {.name = "cross_entropy", .output = "seq_relationship_logits", .target = "next_sentence_label"}});
}

// The size of its batches.
inline std::int64_t measured_batch(const std::string& name) {
  if (name == "resnet18") return 16;
  if (name == "resnet50" || name == "bert_base") return 4;
  if (name == "lstm") return 32;
  return name == "transformer_block" ? 8 : 64;
}

}  // namespace rookery
