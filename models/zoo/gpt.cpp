// A decoder-only transformer ("Language Models are Unsupervised Multitask Learners"), with minGPT's names and
// its initial distributions' deviations. Outputs are logits f32[batch, length, vocabulary] for what follows
// each token.
#include <fmt/format.h>

#include <cmath>

#include "models/graph/builder.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {
namespace {

Initializer deviation(double of) {
  return {.kind = Initializer::Kind::kUniform, .bound = static_cast<float>(of * std::sqrt(3.0))};
}

// A linear layer of every token.
ValueId dense(GraphBuilder& net, const std::string& name, ValueId x, std::int64_t in, std::int64_t out,
              const GptOptions& options, double spread = 0.02, bool bias = true) {
  std::vector<ValueId> inputs{net.reshape(name + ".tokens", x, {-1, in}),
                              net.parameter(name + ".weight", {out, in}, deviation(spread))};
  if (bias) inputs.push_back(net.parameter(name + ".bias", {out}));
  const ValueId y = net.apply(name, "Gemm", std::move(inputs), {{"transB", std::int64_t{1}}});
  return net.reshape(name + ".sequences", y, {-1, options.length, out});
}

ValueId block(GraphBuilder& net, const std::string& name, ValueId x, const GptOptions& options) {
  const std::int64_t width = options.width;
  const double beside = 0.02 / std::sqrt(2.0 * static_cast<double>(options.layers));
  ValueId y = net.layer_norm(name + ".ln_1", x);
  y = dense(net, name + ".attn.c_attn", y, width, 3 * width, options);
  y = net.self_attention(name + ".attn", y,
                         {.heads = options.heads, .is_causal = true, .dropout = options.dropout});
  y = dense(net, name + ".attn.c_proj", y, width, width, options, beside);
  x = net.add(name + ".attn.add", x, net.dropout(name + ".attn.resid_dropout", y, options.dropout));

  y = net.layer_norm(name + ".ln_2", x);
  y = net.gelu(name + ".mlp.act", dense(net, name + ".mlp.c_fc", y, width, 4 * width, options), "tanh");
  y = dense(net, name + ".mlp.c_proj", y, 4 * width, width, options, beside);
  return net.add(name + ".mlp.add", x, net.dropout(name + ".mlp.dropout", y, options.dropout));
}

}  // namespace

Graph gpt(const GptOptions& options) {
  GraphBuilder net;
  const ValueId ids = net.input("input", {options.length}, DType::kI64);
  const ValueId places =
      net.parameter("transformer.wpe.weight", {options.length, options.width}, deviation(0.02));
  ValueId x = net.embedding("transformer.wte", ids, options.vocabulary, options.width, deviation(0.02));
  x = net.dropout("transformer.drop", net.add("transformer.wpe", x, places), options.dropout);
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    x = block(net, fmt::format("transformer.h.{}", layer), x, options);
  }
  x = net.layer_norm("transformer.ln_f", x);
  return net.finish(dense(net, "lm_head", x, options.width, options.vocabulary, options, 0.02, false));
}

Graph gpt_block(const GptOptions& options) {
  GraphBuilder net;
  const ValueId x = net.input("input", {options.length, options.width});
  return net.finish(block(net, "block", x, options));
}

}  // namespace rookery
