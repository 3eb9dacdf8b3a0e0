// What gives elements another shape or takes parts of them, where a file says it otherwise than a graph:
// sizes that follow from others, sequences, shapes that depend on the batch.

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/parse.hpp"
#include "models/graph/op_definition.hpp"
#include "models/graph/ops/element_ranges.hpp"
#include "models/graph/ops/resize.hpp"
#include "models/io/onnx/import/operators/by_signature.hpp"
#include "models/io/onnx/import/operators/families.hpp"
#include "models/io/onnx/import/operators/operators.hpp"

namespace rookery {
namespace {

using Integers = std::vector<std::int64_t>;

Operands import_split(GraphImporter& graph, ImportedNode& node) {
  const std::int64_t parts = integer(node, "num_outputs", std::ssize(node.outputs));
  node.attributes.erase("num_outputs");
  if (is_there(node, 1)) return import_by_signature(graph, node);
  if (parts != std::ssize(node.outputs)) throw DataError(fmt::format("has not {} outputs", parts));
  const Shape shape = graph.type(input(node, 0), 0).shape;
  const std::int64_t axis = integer(node, "axis", 0);
  if (axis < -shape.rank() || axis >= shape.rank())
    throw DataError(fmt::format("axis {} of {}", axis, shape.to_string()));
  const std::int64_t size = shape[static_cast<int>(axis)];
  const std::int64_t part = (size + parts - 1) / parts;
  Tensor sizes(DType::kI64, {parts});
  std::ranges::fill(sizes.as<std::int64_t>(), part);
  sizes.as<std::int64_t>().back() = size - part * (parts - 1);
  node.inputs = {node.inputs.at(0), Known(std::move(sizes))};
  return import_by_signature(graph, node);
}

void check_parts(std::int64_t count) {
  const auto most = static_cast<std::int64_t>(op_signature("Split")->most_outputs);
  if (count > most) throw DataError(fmt::format("splits into {} parts, more than {}", count, most));
}

// Sizes of the parts along an axis of `size` elements: those given; of a single number n parts of n, the last
// perhaps smaller.
Integers sizes_of_sequence(const Tensor& split, std::int64_t size) {
  Integers sizes = integers_of(split, "split");
  if (split.shape().rank() > 0) return sizes;
  const std::int64_t part = sizes[0];
  if (part < 1) throw DataError(fmt::format("splits into parts of {} elements", part));
  check_parts(size / part);
  sizes.assign(size / part, part);
  if (size % part != 0) sizes.push_back(size % part);
  return sizes;
}

// Without sizes every part is of 1 element, and its axis goes where keepdims is 0.
Operands import_split_to_sequence(GraphImporter& graph, ImportedNode& node) {
  const AtProbes<Shape> shapes = graph.shapes(input(node, 0));
  const int axis = axis_of(integer(node, "axis", 0), shapes[0].rank());
  if (shapes[0][axis] != shapes[1][axis]) throw DataError("splits the batch");
  const bool is_single = !is_there(node, 1);
  Integers sizes;
  if (is_single) {
    check_parts(shapes[0][axis]);
    sizes.assign(shapes[0][axis], 1);
  } else {
    const Known& split = known_input(node, 1, "split");
    if (!split.is_constant()) throw DataError("its split depends on the batch size");
    sizes = sizes_of_sequence(split.at(0), shapes[0][axis]);
  }
  AtProbes<Attributes> attributes;
  attributes.fill({{"axis", std::int64_t{axis}}, {"split", sizes}});
  Operands parts =
      graph.emit(node.name, "Split", {node.inputs[0]}, attributes, std::vector<std::string>(sizes.size()));
  if (is_single && integer(node, "keepdims", 1) == 0) {
    for (Operand& part : parts)
      part = graph.emit(node.name + ".squeezed", "Squeeze", {part}, {{"axes", Integers{axis}}});
  }
  return {std::make_shared<const Sequence>(Sequence{std::move(parts)})};
}

Operands import_sequence_at(GraphImporter&, ImportedNode& node) {
  const auto* sequence = std::get_if<std::shared_ptr<const Sequence>>(&input(node, 0));
  if (sequence == nullptr) throw DataError("reads no sequence");
  const Operands& parts = (*sequence)->parts;
  const Known& position = known_input(node, 1, "position");
  if (!position.is_constant()) throw DataError("its position depends on the batch size");
  const auto place = std::get<std::int64_t>(attribute_from(AttributeKind::kInt, position.at(0), "position"));
  const std::int64_t count = std::ssize(parts);
  if (place < -count || place >= count)
    throw DataError(fmt::format("position {} of a sequence of {}", place, count));
  return {parts[place < 0 ? place + count : place]};
}

Operands import_squeeze(GraphImporter& graph, ImportedNode& node) {
  if (!is_there(node, 1)) {
    const AtProbes<Shape> shapes = graph.shapes(input(node, 0));
    Integers axes;
    for (int axis = 0; axis < shapes[0].rank(); ++axis) {
      if (shapes[0][axis] == 1 && shapes[1][axis] == 1) axes.push_back(axis);
    }
    Tensor tensor(DType::kI64, {std::ssize(axes)});
    std::ranges::copy(axes, tensor.as<std::int64_t>().begin());
    node.inputs = {input(node, 0), Known(std::move(tensor))};
  }
  return import_by_signature(graph, node);
}

Operands import_reshape(GraphImporter& graph, ImportedNode& node) {
  return {graph.reshape(node.name, input(node, 0), integers_at_probes(node, 1, "shape"),
                        integer(node, "allowzero", 0) != 0, node.outputs[0])};
}

Operands import_expand(GraphImporter& graph, ImportedNode& node) {
  return {graph.expand(node.name, input(node, 0), integers_at_probes(node, 1, "shape"), node.outputs[0])};
}

// F.interpolate multiplies by a factor that files have as the nearest float.
void check_factors(const std::vector<float>& scales, const Shape& from) {
  for (int axis = 2; axis < std::min<int>(from.rank(), static_cast<int>(scales.size())); ++axis) {
    const float scale = scales[axis];
    if (!std::isfinite(scale)) continue;  // refused with its shape
    const double size = resized(from[axis], scale);
    const double as_written =
        std::floor(static_cast<double>(from[axis]) * number_from<double>(fmt::to_string(scale)).value());
    if (size != as_written)
      throw DataError(
          fmt::format("its scale of {} makes {} or {} of {}, by digits that the file has not: give "
                      "interpolate() its size in the module, not a scale_factor",
                      scale, as_written, size, from[axis]));
  }
}

// `sizes` become scales.
Operands import_resize(GraphImporter& graph, ImportedNode& node) {
  const Shape from = graph.type(input(node, 0), 0).shape;
  if (is_there(node, 3)) {
    const Integers sizes = integers_at_probes(node, 3, "sizes")[0];
    if (std::ssize(sizes) != from.rank())
      throw DataError(fmt::format("{} sizes for {}", sizes.size(), from.to_string()));
    Tensor scales(DType::kF32, {std::ssize(sizes)});
    for (std::size_t i = 0; i < sizes.size(); ++i)
      scales.as<float>()[i] = static_cast<float>(sizes[i]) / static_cast<float>(from[static_cast<int>(i)]);
    node.inputs = {node.inputs[0], Operand(), Known(std::move(scales))};
  } else if (is_there(node, 2)) {
    const Attribute scales =
        attribute_from(AttributeKind::kFloats, known_input(node, 2, "scales").at(0), "scales");
    check_factors(std::get<std::vector<float>>(scales), from);
  }
  node.inputs.resize(std::max<std::size_t>(node.inputs.size(), 3));
  node.inputs[1] = Operand();
  return import_by_signature(graph, node);
}

// x in the dimensions `apart`, which are put into another order and read as `to`.
Operands rearrange(GraphImporter& graph, const ImportedNode& node, const AtProbes<Integers>& apart,
                   const Integers& order, const AtProbes<Integers>& to) {
  const Operand split = graph.reshape(node.name + ".apart", input(node, 0), apart, false, {});
  const Operand turned = graph.emit(node.name + ".turned", "Transpose", {split}, {{"perm", order}});
  return {graph.reshape(node.name, turned, to, false, node.outputs[0])};
}

std::int64_t block_of(const ImportedNode& node, const Shape& x) {
  const std::int64_t block = integer(node, "blocksize", 0);
  constexpr std::int64_t kMost = 1 << 16;
  if (block < 1 || block > kMost || x.rank() != 4)
    throw DataError(fmt::format("blocks of {} of {}", block, x.to_string()));
  return block;
}

// A block of elements of one place, from channels.
Operands import_depth_to_space(GraphImporter& graph, ImportedNode& node) {
  const AtProbes<Shape> shapes = graph.shapes(input(node, 0));
  const std::int64_t block = block_of(node, shapes[0]);
  if (shapes[0][1] % (block * block) != 0)
    throw DataError(fmt::format("blocks of {} of {}", block, shapes[0].to_string()));
  const auto mode = node.attributes.find("mode");
  const bool by_columns = mode != node.attributes.end() && mode->second == Attribute(std::string("CRD"));
  AtProbes<Integers> apart, to;
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    const Shape& x = shapes[probe];
    const std::int64_t channels = x[1] / (block * block);
    apart[probe] = by_columns ? Integers{x[0], channels, block, block, x[2], x[3]}
                              : Integers{x[0], block, block, channels, x[2], x[3]};
    to[probe] = {x[0], channels, x[2] * block, x[3] * block};
  }
  return rearrange(graph, node, apart, by_columns ? Integers{0, 1, 4, 2, 5, 3} : Integers{0, 3, 4, 1, 5, 2},
                   to);
}

Operands import_space_to_depth(GraphImporter& graph, ImportedNode& node) {
  const AtProbes<Shape> shapes = graph.shapes(input(node, 0));
  const std::int64_t block = block_of(node, shapes[0]);
  if (shapes[0][2] % block != 0 || shapes[0][3] % block != 0)
    throw DataError(fmt::format("blocks of {} of {}", block, shapes[0].to_string()));
  AtProbes<Integers> apart, to;
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    const Shape& x = shapes[probe];
    apart[probe] = {x[0], x[1], x[2] / block, block, x[3] / block, block};
    to[probe] = {x[0], x[1] * block * block, x[2] / block, x[3] / block};
  }
  return rearrange(graph, node, apart, {0, 3, 5, 1, 2, 4}, to);
}

Operands import_shape(GraphImporter& graph, ImportedNode& node) {
  return {graph.shape_of(input(node, 0), integer(node, "start", 0),
                         integer(node, "end", std::numeric_limits<std::int64_t>::max()))};
}

Operands import_size(GraphImporter& graph, ImportedNode& node) {
  ImportedNode product{.name = node.name, .type = "ReduceProd"};
  product.attributes["keepdims"] = std::int64_t{0};
  product.inputs = {graph.shape_of(input(node, 0), 0, std::numeric_limits<std::int64_t>::max())};
  product.outputs = node.outputs;
  return import_node(graph, std::move(product));
}

}  // namespace

ImportTable shape_imports() {
  return {
      {"DepthToSpace", import_depth_to_space},
      {"Expand", import_expand},
      {"Reshape", import_reshape},
      {"Resize", import_resize},
      {"SequenceAt", import_sequence_at},
      {"Shape", import_shape},
      {"Size", import_size},
      {"SpaceToDepth", import_space_to_depth},
      {"Split", import_split},
      {"SplitToSequence", import_split_to_sequence},
      {"Squeeze", import_squeeze},
  };
}

}  // namespace rookery
