// "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale" (arXiv 2010.11929), with
// torchvision's names and initial distributions. Outputs are logits.

#include <cmath>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/zoo/layers.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {
namespace {

// torch.nn.init.xavier_uniform_ of a layer from `in` to `out`.
Initializer xavier(std::int64_t in, std::int64_t out) {
  return {.kind = Initializer::Kind::kUniform,
          .bound = static_cast<float>(std::sqrt(6.0 / static_cast<double>(in + out)))};
}

class Vit {
 public:
  explicit Vit(const VitOptions& options) : options_(options) {}

  Graph build() {
    ValueId x = with_places(with_class_token(patches()));
    x = net_.dropout("encoder.dropout", x, options_.dropout);
    for (std::int64_t i = 0; i < options_.layers; ++i)
      x = layer(fmt::format("encoder.layers.encoder_layer_{}", i), x);
    x = norm("encoder.ln", x);
    x = net_.squeeze("class", net_.slice("class_token_last", x, 1, 0, 1), {1});
    return net_.finish(
        net_.linear("heads.head", x, options_.classes, true, {.weight = kZeros, .bias = kZeros}));
  }

 private:
  static constexpr Initializer kZeros{};

  // Every square of the image is a token: f32[batch, patches, width].
  ValueId patches() {
    const double fan_in = 3.0 * static_cast<double>(options_.patch * options_.patch);
    const ValueId image = net_.input("input", {3, options_.image_size, options_.image_size});
    ValueId x = net_.conv2d("conv_proj", image, options_.width,
                            {.kernel = options_.patch,
                             .stride = options_.patch,
                             .padding = 0,
                             .start = normal_start(static_cast<float>(1 / std::sqrt(fan_in)))});
    x = net_.reshape("patches", x, {0, options_.width, -1});
    return net_.transpose("tokens", x, {0, 2, 1});
  }

  // One more token before the others, the same for every image: its place is made as zeros.
  ValueId with_class_token(ValueId x) {
    const ValueId token = net_.parameter("class_token", {1, 1, options_.width});
    const std::vector<std::int64_t> before{0, 1, 0, 0, 0, 0};
    const std::vector<std::int64_t> behind{0, 0, 0, 0, net_.shape_of(x)[1], 0};
    return net_.add("with_class_token", net_.apply("room_for_class", "Pad", {x}, {{"pads", before}}),
                    net_.apply("class_alone", "Pad", {token}, {{"pads", behind}}));
  }

  ValueId with_places(ValueId x) {
    const ValueId places = net_.parameter("encoder.pos_embedding", {1, net_.shape_of(x)[1], options_.width},
                                          *normal_start(0.02F).weight);
    return net_.add("with_places", x, places);
  }

  // Attention, then two layers for every token; each beside x, after a layer norm.
  ValueId layer(const std::string& name, ValueId x) {
    const std::string self = name + ".self_attention";
    const std::int64_t width = options_.width;
    const ValueId weight =
        net_.parameter(self + ".in_proj_weight", {3 * width, width}, xavier(width, 3 * width));
    const ValueId bias = net_.parameter(self + ".in_proj_bias", {3 * width});
    ValueId y = net_.linear_by(self + ".in_proj", norm(name + ".ln_1", x), weight, bias);
    y = net_.self_attention(self, y, {.heads = options_.heads, .dropout = options_.dropout});
    y = net_.linear(self + ".out_proj", y, width, true, {.weight = {}, .bias = kZeros});
    x = add_dropped(net_, name, x, y, options_.dropout);

    const Initializer bias_start = *normal_start(1e-6F).weight;
    const LayerStart start{.weight = xavier(width, options_.inner), .bias = bias_start};
    y = net_.linear(name + ".mlp.0", norm(name + ".ln_2", x), options_.inner, true, start);
    y = net_.dropout(name + ".mlp.2", net_.gelu(name + ".mlp.1", y), options_.dropout);
    y = net_.linear(name + ".mlp.3", y, width, true, start);
    return add_dropped(net_, name + ".mlp", x, y, options_.dropout);
  }

  ValueId norm(const std::string& name, ValueId x) { return net_.layer_norm(name, x, 1, 1e-6F); }

  GraphBuilder net_;
  VitOptions options_;
};

}  // namespace

Graph vit(const VitOptions& options) {
  if (options.image_size % options.patch != 0) {
    throw ConfigError(fmt::format("vit: images of {} pixels a side are not cut into patches of {} evenly",
                                  options.image_size, options.patch));
  }
  return Vit(options).build();
}

const std::map<std::string, VitOptions>& vit_sizes() {
  static const std::map<std::string, VitOptions> sizes{
      {"tiny_16", {.heads = 3, .width = 192, .inner = 768}},
      {"b_16", {}},
      {"b_32", {.patch = 32}},
      {"l_16", {.layers = 24, .heads = 16, .width = 1024, .inner = 4096}},
      {"l_32", {.patch = 32, .layers = 24, .heads = 16, .width = 1024, .inner = 4096}},
      {"h_14", {.patch = 14, .layers = 32, .heads = 16, .width = 1280, .inner = 5120}},
  };
  return sizes;
}

}  // namespace rookery
