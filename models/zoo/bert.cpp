// "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding" (arXiv 1810.04805) with
// both heads of its pre-training, with the names and initial distributions of Hugging Face's
// BertForPreTraining.
// Inputs, as the tokenizers there make them, i64[batch, length]: input_ids, token_type_ids (of which of two
// sentences a token is) and attention_mask (1: a token, 0: filling). Outputs: prediction_logits
// f32[batch, length, vocabulary] for the masked words, seq_relationship_logits f32[batch, 2] for whether the
// second sentence is the next one (0) or a random one. The last layer of the former has the weights of the
// word embeddings.

#include "models/base/libraries/format.hpp"
#include "models/zoo/layers.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {
namespace {

constexpr const char* kWords = "bert.embeddings.word_embeddings.weight";
constexpr const char* kWordsBias = "cls.predictions.bias";

class Bert {
 public:
  explicit Bert(const BertOptions& options) : options_(options) {}

  Graph build() {
    const ValueId ids = net_.input("input_ids", {options_.length}, DType::kI64);
    const ValueId types = net_.input("token_type_ids", {options_.length}, DType::kI64);
    const ValueId attended = net_.input("attention_mask", {options_.length}, DType::kI64);
    const ValueId words = net_.parameter(kWords, {options_.vocabulary, options_.width}, *start_.weight);
    // [batch, 1, 1, length]: the same for every head and row.
    const ValueId mask = net_.unsqueeze("mask", net_.cast("attended", attended, DType::kBool), {1, 2});

    ValueId x = embed(words, ids, types);
    for (std::int64_t i = 0; i < options_.layers; ++i)
      x = layer(fmt::format("bert.encoder.layer.{}", i), x, mask);
    const ValueId first = net_.squeeze("bert.first", net_.slice("bert.first_token", x, 1, 0, 1), {1});
    const ValueId pooled =
        net_.tanh("bert.pooler.activation", dense("bert.pooler.dense", first, options_.width));
    return net_.finish({net_.called("prediction_logits", predictions(words, x)),
                        net_.called("seq_relationship_logits", dense("cls.seq_relationship", pooled, 2))});
  }

 private:
  ValueId dense(const std::string& name, ValueId x, std::int64_t width) {
    return net_.linear(name, x, width, true, start_);
  }

  ValueId norm(const std::string& name, ValueId x) { return net_.layer_norm(name, x, 1, 1e-12F); }

  // There are embeddings of words, of the sentence and of the place.
  ValueId embed(ValueId words, ValueId ids, ValueId types) {
    const std::string name = "bert.embeddings";
    ValueId x = net_.gather(name + ".word_embeddings", words, ids);
    x = net_.add(name + ".with_types", x,
                 net_.embedding(name + ".token_type_embeddings", types, 2, options_.width, *start_.weight));
    ValueId places = net_.parameter(name + ".position_embeddings.weight",
                                    {options_.positions, options_.width}, *start_.weight);
    if (options_.length < options_.positions)
      places = net_.slice(name + ".places", places, 0, 0, options_.length);
    x = norm(name + ".LayerNorm", net_.add(name + ".with_places", x, places));
    return net_.dropout(name + ".dropout", x, options_.dropout);
  }

  // Attention, then two layers for every token; each beside x, before a layer norm.
  ValueId layer(const std::string& name, ValueId x, ValueId mask) {
    const std::string self = name + ".attention.self";
    const ValueId q = dense(self + ".query", x, options_.width);
    const ValueId k = dense(self + ".key", x, options_.width);
    const ValueId v = dense(self + ".value", x, options_.width);
    ValueId y =
        net_.attention(self, q, k, v, {.heads = options_.heads, .dropout = options_.dropout, .mask = mask});
    y = dense(name + ".attention.output.dense", y, options_.width);
    y = add_dropped(net_, name + ".attention.output", x, y, options_.dropout);
    x = norm(name + ".attention.output.LayerNorm", y);

    y = net_.gelu(name + ".intermediate.act", dense(name + ".intermediate.dense", x, options_.inner));
    y = dense(name + ".output.dense", y, options_.width);
    return norm(name + ".output.LayerNorm", add_dropped(net_, name + ".output", x, y, options_.dropout));
  }

  ValueId predictions(ValueId words, ValueId x) {
    const std::string name = "cls.predictions";
    x = net_.gelu(name + ".transform.act", dense(name + ".transform.dense", x, options_.width));
    x = norm(name + ".transform.LayerNorm", x);
    return net_.linear_by(name + ".decoder", x, words, net_.parameter(kWordsBias, {options_.vocabulary}));
  }

  GraphBuilder net_;
  BertOptions options_;
  LayerStart start_ = normal_start(0.02F);
};

}  // namespace

StateDict bert_tied_names(const StateDict& state) {
  StateDict tied;
  for (const auto& [name, of] : {std::pair("cls.predictions.decoder.weight", kWords),
                                 std::pair("cls.predictions.decoder.bias", kWordsBias)}) {
    const auto found = state.find(of);
    if (found != state.end()) tied.emplace(name, found->second.clone());
  }
  return tied;
}

Graph bert(const BertOptions& options) {
  return Bert(options).build();
}

const std::map<std::string, BertOptions>& bert_sizes() {
  static const std::map<std::string, BertOptions> sizes{
      {"tiny", {.layers = 2, .heads = 2, .width = 128, .inner = 512}},
      {"mini", {.layers = 4, .heads = 4, .width = 256, .inner = 1024}},
      {"small", {.layers = 4, .heads = 8, .width = 512, .inner = 2048}},
      {"medium", {.layers = 8, .heads = 8, .width = 512, .inner = 2048}},
      {"base", {}},
      {"large", {.layers = 24, .heads = 16, .width = 1024, .inner = 4096}},
  };
  return sizes;
}

}  // namespace rookery
