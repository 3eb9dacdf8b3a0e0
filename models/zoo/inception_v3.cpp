// "Rethinking the Inception Architecture for Computer Vision" (arXiv 1512.00567), with torchvision's names
// and initial distributions. Outputs are `logits` and, of a head that helps the middle of the network to
// learn, `aux_logits`; without it any image of 75 pixels or more a side will do.

#include "models/base/libraries/format.hpp"
#include "models/zoo/layers.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {
namespace {

using Conv = GraphBuilder::ConvOptions;

class Inception {
 public:
  explicit Inception(const InceptionOptions& options) : options_(options) {}

  Graph build() {
    ValueId x = net_.input("input", {3, options_.image_size, options_.image_size});
    x = conv("Conv2d_1a_3x3", x, 32, {.stride = 2, .padding = 0});
    x = conv("Conv2d_2a_3x3", x, 32, {.padding = 0});
    x = conv("Conv2d_2b_3x3", x, 64, {});
    x = net_.max_pool2d("maxpool1", x, 3, 2);
    x = conv("Conv2d_3b_1x1", x, 80, {.kernel = 1});
    x = conv("Conv2d_4a_3x3", x, 192, {.padding = 0});
    x = net_.max_pool2d("maxpool2", x, 3, 2);
    x = block_a("Mixed_5b", x, 32);
    x = block_a("Mixed_5c", x, 64);
    x = block_a("Mixed_5d", x, 64);
    x = reduction_a("Mixed_6a", x);
    x = block_b("Mixed_6b", x, 128);
    x = block_b("Mixed_6c", x, 160);
    x = block_b("Mixed_6d", x, 160);
    x = block_b("Mixed_6e", x, 192);
    const ValueId middle = x;
    x = reduction_b("Mixed_7a", x);
    x = block_c("Mixed_7b", x);
    x = block_c("Mixed_7c", x);
    x = net_.dropout("dropout", net_.global_avg_pool("avgpool", x), 0.5F);
    LayerStart start{.weight = normal_start(0.1F).weight};
    x = net_.linear("fc", net_.flatten("flatten", x), options_.classes, true, start);
    const ValueId logits = net_.called("logits", x);
    if (!options_.aux) return net_.finish(logits);
    return net_.finish({logits, net_.called("aux_logits", auxiliary("AuxLogits", middle))});
  }

 private:
  ValueId conv(const std::string& name, ValueId x, std::int64_t channels, Conv options) {
    options.start = normal_start(0.1F);
    x = conv_norm(net_, name + ".conv", name + ".bn", x, scaled(channels, options_.width), options, 1e-3F);
    return net_.relu(name + ".relu", x);
  }

  // The average around every place, made `channels` wide.
  ValueId pooled(const std::string& name, ValueId x, std::int64_t channels) {
    return conv(name + ".branch_pool", net_.avg_pool2d(name + ".pool", x, 3, 1, 1), channels, {.kernel = 1});
  }

  ValueId join(const std::string& name, const std::vector<ValueId>& branches) {
    return net_.concat(name + ".cat", branches, 1);
  }

  // Beside each other 1×1, 5×5 and two of 3×3.
  ValueId block_a(const std::string& name, ValueId x, std::int64_t pool_channels) {
    const ValueId single = conv(name + ".branch1x1", x, 64, {.kernel = 1});
    ValueId wide = conv(name + ".branch5x5_1", x, 48, {.kernel = 1});
    wide = conv(name + ".branch5x5_2", wide, 64, {.kernel = 5});
    ValueId twice = conv(name + ".branch3x3dbl_1", x, 64, {.kernel = 1});
    twice = conv(name + ".branch3x3dbl_2", twice, 96, {});
    twice = conv(name + ".branch3x3dbl_3", twice, 96, {});
    return join(name, {single, wide, twice, pooled(name, x, pool_channels)});
  }

  ValueId reduction_a(const std::string& name, ValueId x) {
    const ValueId once = conv(name + ".branch3x3", x, 384, {.stride = 2, .padding = 0});
    ValueId twice = conv(name + ".branch3x3dbl_1", x, 64, {.kernel = 1});
    twice = conv(name + ".branch3x3dbl_2", twice, 96, {});
    twice = conv(name + ".branch3x3dbl_3", twice, 96, {.stride = 2, .padding = 0});
    return join(name, {once, twice, net_.max_pool2d(name + ".pool", x, 3, 2)});
  }

  // 7×7 in rows and columns, once and twice; `inner` channels between them.
  ValueId block_b(const std::string& name, ValueId x, std::int64_t inner) {
    const ValueId single = conv(name + ".branch1x1", x, 192, {.kernel = 1});
    ValueId once = conv(name + ".branch7x7_1", x, inner, {.kernel = 1});
    once = conv(name + ".branch7x7_2", once, inner, {.kernel = {1, 7}});
    once = conv(name + ".branch7x7_3", once, 192, {.kernel = {7, 1}});
    ValueId twice = conv(name + ".branch7x7dbl_1", x, inner, {.kernel = 1});
    twice = conv(name + ".branch7x7dbl_2", twice, inner, {.kernel = {7, 1}});
    twice = conv(name + ".branch7x7dbl_3", twice, inner, {.kernel = {1, 7}});
    twice = conv(name + ".branch7x7dbl_4", twice, inner, {.kernel = {7, 1}});
    twice = conv(name + ".branch7x7dbl_5", twice, 192, {.kernel = {1, 7}});
    return join(name, {single, once, twice, pooled(name, x, 192)});
  }

  ValueId reduction_b(const std::string& name, ValueId x) {
    ValueId small = conv(name + ".branch3x3_1", x, 192, {.kernel = 1});
    small = conv(name + ".branch3x3_2", small, 320, {.stride = 2, .padding = 0});
    ValueId large = conv(name + ".branch7x7x3_1", x, 192, {.kernel = 1});
    large = conv(name + ".branch7x7x3_2", large, 192, {.kernel = {1, 7}});
    large = conv(name + ".branch7x7x3_3", large, 192, {.kernel = {7, 1}});
    large = conv(name + ".branch7x7x3_4", large, 192, {.stride = 2, .padding = 0});
    return join(name, {small, large, net_.max_pool2d(name + ".pool", x, 3, 2)});
  }

  // Rows and columns beside each other.
  ValueId fork(const std::string& name, ValueId x, const std::string& rows, const std::string& columns) {
    return join(name, {conv(rows, x, 384, {.kernel = {1, 3}}), conv(columns, x, 384, {.kernel = {3, 1}})});
  }

  ValueId block_c(const std::string& name, ValueId x) {
    const ValueId single = conv(name + ".branch1x1", x, 320, {.kernel = 1});
    const std::string once = name + ".branch3x3";
    ValueId a = conv(once + "_1", x, 384, {.kernel = 1});
    a = fork(once, a, once + "_2a", once + "_2b");
    const std::string twice = name + ".branch3x3dbl";
    ValueId b = conv(twice + "_1", x, 448, {.kernel = 1});
    b = conv(twice + "_2", b, 384, {});
    b = fork(twice, b, twice + "_3a", twice + "_3b");
    return join(name, {single, a, b, pooled(name, x, 192)});
  }

  ValueId auxiliary(const std::string& name, ValueId x) {
    x = net_.avg_pool2d(name + ".pool", x, 5, 3);
    x = conv(name + ".conv0", x, 128, {.kernel = 1});
    x = conv(name + ".conv1", x, 768, {.kernel = 5, .padding = 0});
    x = net_.flatten(name + ".flatten", net_.global_avg_pool(name + ".avgpool", x));
    return net_.linear(name + ".fc", x, options_.classes, true, {.weight = normal_start(1e-3F).weight});
  }

  GraphBuilder net_;
  InceptionOptions options_;
};

}  // namespace

Graph inception_v3(const InceptionOptions& options) {
  return Inception(options).build();
}

}  // namespace rookery
