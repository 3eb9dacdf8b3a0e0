// Models by name. Every model has the parameter names and shapes of the implementation that its page names,
// so that states are exchanged with it. All take options by name, too: "resnet18?image_size=32&classes=10".
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/base/named_options.hpp"
#include "models/graph/graph.hpp"
#include "models/graph/passes/loss.hpp"
#include "models/graph/state/state_dict.hpp"

namespace rookery {

struct ZooModel {
  std::string name;
  std::string summary;
  LossSettings loss;  // what it is usually trained for
  // Reads its options, and builds the model.
  Graph (*build)(NamedOptions&);
  // See reference_extras(); none where there are none.
  StateDict (*extras)(NamedOptions&, const StateDict& state) = nullptr;
};

const std::vector<ZooModel>& zoo();
// The entry of "NAME" or "NAME?OPTIONS". ConfigError listing the names when there is none like it.
const ZooModel& zoo_entry(const std::string& name);
// Builds it. ConfigError also for options that it does not have and values out of range.
Graph zoo_model(const std::string& name);
// The tensors that the reference's state dict has besides the graph's parameters and buffers, which `state`
// holds: second names of tied parameters, masks that never change. Empty for a name that is not of the zoo.
StateDict reference_extras(const std::string& name, const StateDict& state);
// Takes them out of a state dict of the reference. One with another value stays.
void remove_reference_extras(const std::string& name, StateDict& state);

// One page each. Images are square, with three channels unless said otherwise.
Graph cnn_net();
Graph mnist_mlp();
Graph deep_mlp();

struct ImageOptions {
  std::int64_t image_size = 224;
  std::int64_t classes = 1000;
  double width = 1;  // of the channels of every layer
};
Graph resnet18(const ImageOptions& options = {});
Graph resnet50(const ImageOptions& options = {});
Graph mobilenet_v2(const ImageOptions& options = {});
// For two classes it has one logit, that of the second.
Graph small_xception(const ImageOptions& options = {.image_size = 180, .classes = 2});

struct InceptionOptions {
  std::int64_t image_size = 299;
  std::int64_t classes = 1000;
  double width = 1;
  bool aux = true;  // with the auxiliary head, for images of 299 pixels or more
};
Graph inception_v3(const InceptionOptions& options = {});

struct VggOptions {
  std::int64_t image_size = 224;  // a multiple of 32
  std::int64_t classes = 1000;
  double width = 1;
  // The width of the two layers before the last, for images of 224 pixels; 0: without them, as is usual for
  // small ones.
  std::int64_t hidden = 4096;
};
Graph vgg11(const VggOptions& options = {});

// The sizes of minGPT's gpt-nano, which learns to sort.
struct GptOptions {
  std::int64_t vocabulary = 3;
  std::int64_t length = 11;  // of a sequence, in tokens
  std::int64_t layers = 3;
  std::int64_t heads = 3;
  std::int64_t width = 48;
  float dropout = 0.1F;
};
Graph gpt(const GptOptions& options = {});
StateDict gpt_masks(const GptOptions& options);  // minGPT's buffers `attn.bias`
// One of its layers by itself: f32[batch, length, width] to the same.
Graph gpt_block(const GptOptions& options);
const std::map<std::string, GptOptions>& gpt_sizes();

struct BertOptions {
  std::int64_t vocabulary = 30522;
  std::int64_t length = 128;     // of a sequence, in tokens
  std::int64_t positions = 512;  // the longest that the weights are for
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t width = 768;
  std::int64_t inner = 3072;  // width of a layer's middle
  float dropout = 0.1F;
};
StateDict bert_tied_names(const StateDict& state);
Graph bert(const BertOptions& options = {});
const std::map<std::string, BertOptions>& bert_sizes();

struct VitOptions {
  std::int64_t image_size = 224;
  std::int64_t classes = 1000;
  std::int64_t patch = 16;
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t width = 768;
  std::int64_t inner = 3072;
  float dropout = 0;
};
Graph vit(const VitOptions& options = {});
const std::map<std::string, VitOptions>& vit_sizes();

}  // namespace rookery
