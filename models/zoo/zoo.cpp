#include "models/zoo/zoo.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/named_rows.hpp"

namespace rookery {
namespace {

constexpr std::int64_t kMostClasses = 1 << 20;
constexpr std::int64_t kMaxImage = 4096;    // pixels a side
constexpr std::int64_t kMaxLength = 65536;  // of a sequence
constexpr std::int64_t kMaxWords = 1 << 22;
constexpr std::int64_t kMaxLayers = 1000;
constexpr std::int64_t kMaxWidth = 1 << 16;
constexpr double kMaxScale = 8;  // of the channels

template <typename Options>
void read_image(NamedOptions& from, Options& to, std::int64_t smallest) {
  to.image_size = from.integer("image_size", to.image_size, smallest, kMaxImage);
  to.classes = from.integer("classes", to.classes, 1, kMostClasses);
}

template <Graph (*Model)()>
Graph fixed(NamedOptions&) {
  return Model();
}

// `Smallest`: pixels a side.
template <Graph (*Model)(const ImageOptions&), std::int64_t Smallest, std::int64_t Size = 224,
          std::int64_t Classes = 1000>
Graph of_images(NamedOptions& from) {
  ImageOptions options{.image_size = Size, .classes = Classes};
  read_image(from, options, Smallest);
  options.width = from.number("width", options.width, 0.01, kMaxScale);
  return Model(options);
}

Graph named_inception(NamedOptions& from) {
  InceptionOptions options;
  options.aux = from.integer("aux", 1, 0, 1) == 1;
  // In the middle of smaller ones the auxiliary head's 5×5 has no place.
  read_image(from, options, options.aux ? 299 : 75);
  options.width = from.number("width", options.width, 0.01, kMaxScale);
  return inception_v3(options);
}

Graph named_vgg(NamedOptions& from) {
  VggOptions options;
  read_image(from, options, 32);
  options.width = from.number("width", options.width, 0.01, kMaxScale);
  options.hidden = from.integer("hidden", options.hidden, 0, kMaxWidth);
  return vgg11(options);
}

// The sizes of a transformer: those of `size`, but for what is given by itself.
template <typename Options>
Options read_transformer(NamedOptions& from, const std::map<std::string, Options>& sizes,
                         const std::string& usual) {
  std::vector<std::string> names;
  for (const auto& [name, options] : sizes) names.push_back(name);
  Options options = sizes.at(from.choice("size", usual, names));
  options.layers = from.integer("layers", options.layers, 1, kMaxLayers);
  options.heads = from.integer("heads", options.heads, 1, kMaxWidth);
  options.width = from.integer("width", options.width, 1, kMaxWidth);
  if (options.width % options.heads != 0)
    throw ConfigError(
        fmt::format("{}: a width of {} has no {} equal heads", from.name(), options.width, options.heads));
  options.dropout = static_cast<float>(from.number("dropout", options.dropout, 0, 0.99));
  return options;
}

GptOptions gpt_options(NamedOptions& from) {
  GptOptions options = read_transformer(from, gpt_sizes(), "nano");
  options.vocabulary = from.integer("vocabulary", options.vocabulary, 1, kMaxWords);
  options.length = from.integer("length", options.length, 1, kMaxLength);
  return options;
}

Graph named_gpt(NamedOptions& from) {
  return gpt(gpt_options(from));
}

StateDict extras_of_gpt(NamedOptions& from, const StateDict&) {
  return gpt_masks(gpt_options(from));
}

StateDict extras_of_bert(NamedOptions&, const StateDict& state) {
  return bert_tied_names(state);
}

Graph named_bert(NamedOptions& from) {
  BertOptions options = read_transformer(from, bert_sizes(), "base");
  options.inner = from.integer("inner", options.inner, 1, kMaxWidth);
  options.vocabulary = from.integer("vocabulary", options.vocabulary, 1, kMaxWords);
  options.positions = from.integer("positions", options.positions, 1, kMaxLength);
  options.length = from.integer("length", std::min(options.length, options.positions), 1, options.positions);
  return bert(options);
}

Graph named_vit(NamedOptions& from) {
  VitOptions options = read_transformer(from, vit_sizes(), "b_16");
  options.inner = from.integer("inner", options.inner, 1, kMaxWidth);
  options.patch = from.integer("patch", options.patch, 1, kMaxImage);
  read_image(from, options, options.patch);
  return vit(options);
}

LossTerm cross_entropy(const std::string& output, const std::string& target, double weight = 1) {
  return {.name = "cross_entropy", .output = output, .target = target, .weight = weight};
}

// Tokens that nothing is asked of have this label.
LossTerm of_words(LossTerm term) {
  term.ignore_index = -100;
  return term;
}

}  // namespace

const std::vector<ZooModel>& zoo() {
  // 0.4: "Rethinking the Inception Architecture" trains so in its published code.
  static const LossSettings two_heads(
      {cross_entropy("logits", kLabels), cross_entropy("aux_logits", kLabels, 0.4)});
  static const LossSettings words({of_words(cross_entropy("", kLabels))});
  static const LossSettings pretraining({of_words(cross_entropy("prediction_logits", kLabels)),
                                         cross_entropy("seq_relationship_logits", "next_sentence_label")});
  static const std::vector<ZooModel> models{
      {"cnn_net", "two convolutions, two dense layers and softmax, 8×8 grey", "mse", fixed<cnn_net>},
      {"mnist_mlp", "784-256-256-10 with ReLU", "cross_entropy", fixed<mnist_mlp>},
      {"deep_mlp", "784-128-9×512-10 with ReLU", "cross_entropy", fixed<deep_mlp>},
      {"resnet18", "ResNet-18", "cross_entropy", of_images<resnet18, 32>},
      {"resnet50", "ResNet-50", "cross_entropy", of_images<resnet50, 32>},
      {"inception_v3", "Inception v3 with its auxiliary head", two_heads, named_inception},
      {"vgg11", "VGG-11", "cross_entropy", named_vgg},
      {"mobilenet_v2", "MobileNet v2", "cross_entropy", of_images<mobilenet_v2, 32>},
      {"bert", "BERT with both heads of its pre-training", pretraining, named_bert, extras_of_bert},
      {"gpt", "minGPT's GPT, which learns to sort", words, named_gpt, extras_of_gpt},
      {"vit", "vision transformer", "cross_entropy", named_vit},
      {"small_xception", "Keras' image classification from scratch", "bce_with_logits",
       of_images<small_xception, 32, 180, 2>},
  };
  return models;
}

const ZooModel& zoo_entry(const std::string& name) {
  const std::string wanted = NamedOptions(name).name();
  if (const ZooModel* model = find_row(zoo(), wanted)) return *model;
  throw ConfigError(
      fmt::format("there is no model '{}'; there are: {}", wanted, fmt::join(names_of(zoo()), ", ")));
}

Graph zoo_model(const std::string& name) {
  const ZooModel& model = zoo_entry(name);
  NamedOptions options(name);
  Graph graph = model.build(options);
  options.expect_none_left();
  return graph;
}

StateDict reference_extras(const std::string& name, const StateDict& state) {
  NamedOptions options(name);
  const ZooModel* model = find_row(zoo(), options.name());
  if (model == nullptr || model->extras == nullptr) return {};
  return model->extras(options, state);
}

void remove_reference_extras(const std::string& name, StateDict& state) {
  for (const auto& [extra, tensor] : reference_extras(name, state)) {
    const auto found = state.find(extra);
    if (found != state.end() && found->second.type() == tensor.type() &&
        std::ranges::equal(found->second.view().bytes(), tensor.view().bytes()))
      state.erase(found);
  }
}

}  // namespace rookery
