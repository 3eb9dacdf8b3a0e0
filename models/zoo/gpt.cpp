// A decoder-only transformer ("Language Models are Unsupervised Multitask Learners"), with minGPT's names and
// initial distributions; its buffers `attn.bias`, masks that never change, are no part of the graph.
// Outputs are logits f32[batch, length, vocabulary] for what follows each token.

#include <algorithm>
#include <cmath>

#include "models/base/libraries/format.hpp"
#include "models/zoo/layers.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {
namespace {

constexpr float kDeviation = 0.02F;

// Attention to what came before, then two layers for every token; each beside x, after a layer norm.
ValueId block(GraphBuilder& net, const std::string& name, ValueId x, const GptOptions& options) {
  const std::int64_t width = options.width;
  const auto start = normal_start(kDeviation);
  // The sum of all blocks has the deviation of one.
  const auto last = normal_start(kDeviation / std::sqrt(2.0F * static_cast<float>(options.layers)));
  ValueId y = net.layer_norm(name + ".ln_1", x);
  y = net.linear(name + ".attn.c_attn", y, 3 * width, true, start);
  y = net.self_attention(name + ".attn", y,
                         {.heads = options.heads, .is_causal = true, .dropout = options.dropout});
  y = net.linear(name + ".attn.c_proj", y, width, true, last);
  x = add_dropped(net, name + ".attn", x, y, options.dropout);

  y = net.layer_norm(name + ".ln_2", x);
  y = net.gelu(name + ".mlp.act", net.linear(name + ".mlp.c_fc", y, 4 * width, true, start), "tanh");
  y = net.linear(name + ".mlp.c_proj", y, width, true, last);
  return add_dropped(net, name + ".mlp", x, y, options.dropout);
}

}  // namespace

Graph gpt(const GptOptions& options) {
  GraphBuilder net;
  const LayerStart start = normal_start(kDeviation);
  const ValueId ids = net.input("input", {options.length}, DType::kI64);
  const ValueId places =
      net.parameter("transformer.wpe.weight", {options.length, options.width}, *start.weight);
  ValueId x = net.embedding("transformer.wte", ids, options.vocabulary, options.width, *start.weight);
  x = net.dropout("transformer.drop", net.add("transformer.wpe", x, places), options.dropout);
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    x = block(net, fmt::format("transformer.h.{}", layer), x, options);
  }
  x = net.layer_norm("transformer.ln_f", x);
  return net.finish(net.linear("lm_head", x, options.vocabulary, false, start));
}

StateDict gpt_masks(const GptOptions& options) {
  StateDict masks;
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    Tensor mask(DType::kF32, {1, 1, options.length, options.length});
    for (std::int64_t row = 0; row < options.length; ++row)
      std::ranges::fill_n(mask.as<float>().begin() + row * options.length, row + 1, 1.0F);
    masks.emplace(fmt::format("transformer.h.{}.attn.bias", layer), std::move(mask));
  }
  return masks;
}

Graph gpt_block(const GptOptions& options) {
  GraphBuilder net;
  const ValueId x = net.input("input", {options.length, options.width});
  return net.finish(block(net, "block", x, options));
}

const std::map<std::string, GptOptions>& gpt_sizes() {
  constexpr std::int64_t kVocabulary = 50257;  // of GPT-2
  static const std::map<std::string, GptOptions> sizes{
      {"nano", {}},
      {"micro", {.layers = 4, .heads = 4, .width = 128}},
      {"mini", {.layers = 6, .heads = 6, .width = 192}},
      {"gpt2", {.vocabulary = kVocabulary, .length = 1024, .layers = 12, .heads = 12, .width = 768}},
      {"gpt2-medium", {.vocabulary = kVocabulary, .length = 1024, .layers = 24, .heads = 16, .width = 1024}},
      {"gpt2-large", {.vocabulary = kVocabulary, .length = 1024, .layers = 36, .heads = 20, .width = 1280}},
      {"gpt2-xl", {.vocabulary = kVocabulary, .length = 1024, .layers = 48, .heads = 25, .width = 1600}},
  };
  return sizes;
}

}  // namespace rookery
