// Random cases of the operators that move, join, take and choose elements.
#include <algorithm>
#include <numeric>

#include "tests/models/kernels/random_cases.hpp"

namespace rookery::kernel_tests {
namespace {

using Integers = std::vector<std::int64_t>;

std::int64_t random_axis(Draw& draw, const Shape& shape) {
  return draw.integer(-shape.rank(), shape.rank() - 1);
}

// Elements of any type; most often floats, the only ones with gradients.
Tensor elements(Draw& draw, const Shape& shape) {
  if (draw.chance(0.7)) return draw.floats(shape);
  return draw.chance(0.5) ? draw.integers_of(shape, -9, 9) : draw.bools(shape);
}

RandomCase reshape(Draw& draw) {
  const Shape from = draw.shape(0, 5);
  // Neighbours joined, in places ones put in; then a dimension left open or taken over.
  Integers dims;
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (!dims.empty() && draw.chance(0.4)) {
      dims.back() *= from[axis];
    } else {
      dims.push_back(from[axis]);
    }
    if (draw.chance(0.2)) dims.push_back(1);
  }
  if (!dims.empty() && draw.chance(0.5)) dims[draw.integer(0, std::ssize(dims) - 1)] = -1;
  for (std::size_t i = 0; i < dims.size() && std::cmp_less(i, from.rank()); ++i) {
    if (dims[i] == from[static_cast<int>(i)] && draw.chance(0.3)) dims[i] = 0;
  }
  return {.attributes = {{"shape", dims}}, .inputs = inputs_of(elements(draw, from))};
}

RandomCase squeeze(Draw& draw) {
  Shape from = draw.shape(1, 5);
  Integers axes;
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (draw.chance(0.5)) continue;
    from[axis] = 1;
    axes.push_back(draw.chance(0.5) ? axis : axis - from.rank());
  }
  return {.attributes = {{"axes", axes}}, .inputs = inputs_of(elements(draw, from))};
}

RandomCase unsqueeze(Draw& draw) {
  const Shape from = draw.shape(0, 4);
  const std::int64_t more = draw.integer(1, 3);
  const std::int64_t rank = from.rank() + more;
  Integers axes(static_cast<std::size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  while (std::ssize(axes) > more) axes.erase(axes.begin() + draw.integer(0, std::ssize(axes) - 1));
  for (std::int64_t& axis : axes) axis -= draw.chance(0.5) ? rank : 0;
  return {.attributes = {{"axes", axes}}, .inputs = inputs_of(elements(draw, from))};
}

RandomCase transpose(Draw& draw) {
  // Now and then larger than the squares in which planes are turned.
  const Shape from = draw.shape(0, 5, draw.chance(0.2) ? 9 : 4);
  RandomCase test{.attributes = {}, .inputs = inputs_of(elements(draw, from))};
  if (draw.chance(0.2)) return test;
  Integers perm(static_cast<std::size_t>(from.rank()));
  std::iota(perm.begin(), perm.end(), 0);
  for (std::size_t i = perm.size(); i > 1; --i)
    std::swap(perm[i - 1], perm[draw.integer(0, static_cast<std::int64_t>(i) - 1)]);
  test.attributes["perm"] = perm;
  if (draw.chance(0.2) && from.rank() == 2)
    test.inputs = inputs_of(draw.floats({draw.integer(15, 40), draw.integer(15, 40)}));
  return test;
}

RandomCase expand(Draw& draw) {
  const Shape whole = draw.shape(0, 4, 5);
  const Shape from = draw.broadcast_to(whole);
  Integers dims(whole.dims().begin(), whole.dims().end());
  // The shape may have ones, or be shorter, where the input has its dimensions already.
  for (int back = 1; back <= from.rank(); ++back) {
    if (from[-back] == whole[-back] && draw.chance(0.3))
      dims[dims.size() - static_cast<std::size_t>(back)] = 1;
  }
  if (from.rank() == whole.rank() && !dims.empty() && from[0] == whole[0] && draw.chance(0.3))
    dims.erase(dims.begin());
  return {.attributes = {{"shape", dims}}, .inputs = inputs_of(elements(draw, from))};
}

RandomCase tile(Draw& draw) {
  const Shape from = draw.shape(0, 4, 4);
  return {.attributes = {{"repeats", draw.integers(static_cast<std::size_t>(from.rank()), 1, 3)}},
          .inputs = inputs_of(elements(draw, from))};
}

RandomCase concat(Draw& draw) {
  Shape shape = draw.shape(1, 4);
  const std::int64_t axis = random_axis(draw, shape);
  RandomCase test{.attributes = {{"axis", axis}}, .inputs = {}};
  const bool of_floats = draw.chance(0.8);
  for (std::int64_t part = draw.integer(1, 4); part > 0; --part) {
    shape[static_cast<int>(axis)] = draw.integer(1, 4);
    test.inputs.emplace_back(of_floats ? draw.floats(shape) : draw.integers_of(shape, -9, 9));
    if (of_floats && part > 1 && draw.chance(0.15)) test.buffers.insert(test.inputs.size() - 1);
  }
  return test;
}

RandomCase split(Draw& draw) {
  Shape shape = draw.shape(1, 4);
  const std::int64_t axis = random_axis(draw, shape);
  RandomCase test{.attributes = {}, .inputs = {}};
  if (axis != 0 || draw.chance(0.5)) test.attributes["axis"] = axis;
  const bool equal = draw.chance(0.3);
  const Integers sizes = equal ? Integers(2, draw.integer(1, 3))
                               : draw.integers(static_cast<std::size_t>(draw.integer(1, 4)), 1, 4);
  if (!equal) test.attributes["split"] = sizes;
  shape[static_cast<int>(axis)] = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  test.inputs = inputs_of(elements(draw, shape));
  test.outputs = static_cast<int>(sizes.size());
  return test;
}

RandomCase slice(Draw& draw) {
  const Shape shape = draw.shape(1, 4, 7);
  Integers axes, starts, ends, steps;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis > 0 && draw.chance(0.4)) continue;
    const std::int64_t size = shape[axis];
    std::int64_t low = draw.integer(0, size - 1);
    std::int64_t high = draw.integer(low, size - 1);  // both included
    const std::int64_t step = draw.integer(1, 3);
    const std::int64_t far = draw.chance(0.5) ? 1000 : std::int64_t{1} << 60;
    const bool back = draw.chance(0.4);
    if (back) std::swap(low, high);
    std::int64_t end = back ? high - 1 : high + 1;
    if (back && end < 0)
      end = draw.chance(0.5) ? -size - 1 : -far;
    else if (draw.chance(0.2) && end == size)
      end = far;
    else if (draw.chance(0.3) && end > 0 && end < size)
      end -= size;
    if (draw.chance(0.3)) low -= size;
    axes.push_back(draw.chance(0.5) ? axis : axis - shape.rank());
    starts.push_back(low);
    ends.push_back(end);
    steps.push_back(back ? -step : step);
  }
  RandomCase test{.attributes = {{"starts", starts}, {"ends", ends}, {"axes", axes}, {"steps", steps}},
                  .inputs = inputs_of(elements(draw, shape))};
  if (std::ranges::all_of(steps, [](std::int64_t step) { return step == 1; })) test.attributes.erase("steps");
  if (std::ssize(axes) == shape.rank() && draw.chance(0.5)) test.attributes.erase("axes");
  return test;
}

RandomCase pad(Draw& draw) {
  const Shape shape = draw.shape(0, 4, 6);
  const auto rank = static_cast<std::size_t>(shape.rank());
  const auto mode = draw.one_of<std::string>({"constant", "reflect", "edge"});
  Integers pads(2 * rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t size = shape[static_cast<int>(axis)];
    const std::int64_t most = mode == "reflect" ? size - 1 : 3;
    pads[axis] = draw.integer(draw.chance(0.3) ? -(size - 1) / 2 : 0, most);
    pads[axis + rank] = draw.integer(draw.chance(0.3) ? -(size - 1) / 2 : 0, most);
  }
  RandomCase test{.attributes = {{"pads", pads}}, .inputs = inputs_of(elements(draw, shape))};
  if (mode != "constant" || draw.chance(0.5)) test.attributes["mode"] = mode;
  if (mode == "constant" && test.inputs[0]->type().dtype == DType::kF32 && draw.chance(0.5))
    test.attributes["constant_value"] = draw.one_of<float>({-1.5F, 2});
  return test;
}

RandomCase trilu(Draw& draw) {
  RandomCase test{.attributes = {}, .inputs = inputs_of(elements(draw, draw.shape(2, 4)))};
  if (draw.chance(0.6)) test.attributes["k"] = draw.integer(-7, 7);
  if (draw.chance(0.6)) test.attributes["upper"] = draw.integer(0, 1);
  return test;
}

Tensor indices(Draw& draw, const Shape& shape, std::int64_t size) {
  return draw.chance(0.7) ? draw.integers_of(shape, -size, size - 1)
                          : draw.integers_of(shape, -size, size - 1, DType::kI32);
}

RandomCase gather(Draw& draw) {
  const Shape data = draw.shape(1, 4);
  const std::int64_t axis = random_axis(draw, data);
  RandomCase test{.attributes = {},
                  .inputs = inputs_of(elements(draw, data),
                                      indices(draw, draw.shape(0, 3, 4), data[static_cast<int>(axis)]))};
  if (axis != 0 || draw.chance(0.5)) test.attributes["axis"] = axis;
  return test;
}

RandomCase gather_elements(Draw& draw) {
  const Shape data = draw.shape(1, 4);
  const std::int64_t axis = random_axis(draw, data);
  Shape shape = data;
  for (int i = 0; i < data.rank(); ++i) shape[i] = draw.integer(1, data[i]);
  shape[static_cast<int>(axis)] = draw.integer(1, 8);
  RandomCase test{
      .attributes = {},
      .inputs = inputs_of(elements(draw, data), indices(draw, shape, data[static_cast<int>(axis)]))};
  if (axis != 0 || draw.chance(0.5)) test.attributes["axis"] = axis;
  return test;
}

RandomCase gather_nd(Draw& draw) {
  const Shape data = draw.shape(1, 4, 4);
  const std::int64_t batch_dims = draw.integer(0, std::min(data.rank() - 1, 2));
  const std::int64_t depth = draw.integer(1, data.rank() - batch_dims);
  Integers dims(data.dims().begin(), data.dims().begin() + batch_dims);
  for (std::int64_t more = draw.integer(0, 2); more > 0; --more) dims.push_back(draw.integer(1, 4));
  dims.push_back(depth);
  Tensor points(DType::kI64, Shape(dims));
  for (std::int64_t i = 0; i < points.shape().elements(); ++i) {
    const std::int64_t size = data[static_cast<int>(batch_dims + i % depth)];
    points.as<std::int64_t>()[i] = draw.integer(-size, size - 1);
  }
  RandomCase test{.attributes = {}, .inputs = inputs_of(elements(draw, data), std::move(points))};
  if (batch_dims != 0 || draw.chance(0.5)) test.attributes["batch_dims"] = batch_dims;
  return test;
}

// Points are different ones where they are written, in which case others' results are not defined.
RandomCase scatter_nd(Draw& draw) {
  const Shape data = draw.shape(1, 3, 5);
  const std::int64_t depth = draw.integer(1, data.rank());
  const bool adds = draw.chance(0.5);
  Integers places(static_cast<std::size_t>(Shape(data.dims().first(depth)).elements()));
  std::iota(places.begin(), places.end(), 0);
  Integers chosen;
  for (std::int64_t more = draw.integer(1, std::ssize(places)); more > 0; --more) {
    const std::int64_t at = draw.integer(0, std::ssize(places) - 1);
    chosen.push_back(places[at]);
    if (!adds) places.erase(places.begin() + at);
  }
  Tensor points(DType::kI64, {std::ssize(chosen), depth});
  for (std::size_t point = 0; point < chosen.size(); ++point) {
    for (std::int64_t i = depth, rest = chosen[point]; i-- > 0; rest /= data[static_cast<int>(i)]) {
      const std::int64_t size = data[static_cast<int>(i)];
      points.as<std::int64_t>()[point * static_cast<std::size_t>(depth) + static_cast<std::size_t>(i)] =
          rest % size - (draw.chance(0.3) ? size : 0);
    }
  }
  Integers updates{std::ssize(chosen)};
  for (int i = static_cast<int>(depth); i < data.rank(); ++i) updates.push_back(data[i]);
  RandomCase test;
  if (adds || draw.chance(0.5)) test.attributes["reduction"] = std::string(adds ? "add" : "none");
  if (draw.chance(0.8)) {
    test.inputs = inputs_of(draw.floats(data), std::move(points), draw.floats(Shape(updates)));
  } else {
    test.inputs =
        inputs_of(draw.integers_of(data, -9, 9), std::move(points), draw.integers_of(Shape(updates), -9, 9));
  }
  return test;
}

RandomCase cumulative_sum(Draw& draw) {
  const Shape shape = draw.shape(1, 4);
  RandomCase test{.attributes = {{"axis", random_axis(draw, shape)}}, .inputs = {}};
  test.inputs = inputs_of(draw.chance(0.8)
                              ? draw.floats(shape)
                              : draw.integers_of(shape, -9, 9, draw.chance(0.5) ? DType::kI64 : DType::kI32));
  for (const char* key : {"exclusive", "reverse"}) {
    if (draw.chance(0.6)) test.attributes[key] = draw.integer(0, 1);
  }
  return test;
}

RandomCase comparison(Draw& draw) {
  const Shape whole = draw.shape(0, 4);
  const Shape left = draw.chance(0.5) ? draw.broadcast_to(whole) : whole;
  const Shape right = draw.broadcast_to(whole);
  if (draw.chance(0.5))
    return {.attributes = {}, .inputs = inputs_of(draw.quarters(left), draw.quarters(right))};
  const DType type = draw.chance(0.5) ? DType::kI64 : DType::kI32;
  return {.attributes = {},
          .inputs = inputs_of(draw.integers_of(left, -2, 2, type), draw.integers_of(right, -2, 2, type))};
}

RandomCase logic(Draw& draw) {
  const Shape whole = draw.shape(0, 4);
  return {.attributes = {}, .inputs = inputs_of(draw.bools(draw.broadcast_to(whole)), draw.bools(whole))};
}

RandomCase logical_not(Draw& draw) {
  return {.attributes = {}, .inputs = inputs_of(draw.bools(draw.shape(0, 4)))};
}

RandomCase where(Draw& draw) {
  const Shape whole = draw.shape(0, 4);
  const Shape left = draw.chance(0.5) ? draw.broadcast_to(whole) : whole;
  const Shape right = draw.broadcast_to(whole);
  Tensor condition = draw.bools(draw.chance(0.5) ? draw.broadcast_to(whole) : whole);
  if (draw.chance(0.8))
    return {.attributes = {},
            .inputs = inputs_of(std::move(condition), draw.floats(left), draw.floats(right))};
  return {.attributes = {},
          .inputs =
              inputs_of(std::move(condition), draw.integers_of(left, -9, 9), draw.integers_of(right, -9, 9))};
}

// Of two operands quarters, which are often equal; of more, numbers that are not: PyTorch has no function
// of them at once.
RandomCase extremum(Draw& draw) {
  const Shape whole = draw.shape(0, 4);
  const std::int64_t operands = draw.integer(1, 4);
  const bool of_integers = draw.chance(0.2);
  RandomCase test;
  for (std::int64_t i = 0; i < operands; ++i) {
    const Shape shape = draw.chance(0.5) ? draw.broadcast_to(whole) : whole;
    test.inputs.emplace_back(of_integers     ? draw.integers_of(shape, -4, 4)
                             : operands == 2 ? draw.quarters(shape)
                                             : draw.floats(shape));
  }
  return test;
}

RandomCase cast(Draw& draw) {
  const auto to = draw.one_of<std::string>({"f32", "f64", "i64", "i32", "u8", "bool"});
  const Shape shape = draw.shape(0, 4);
  RandomCase test{.attributes = {{"to", to}}, .inputs = {}};
  if (draw.chance(0.5)) {
    test.inputs = inputs_of(to == "u8" ? draw.floats(shape, 0, 200) : draw.quarters(shape));
    if (to != "f32") test.buffers = {0};
  } else {
    test.inputs = inputs_of(draw.chance(0.5) ? draw.integers_of(shape, 0, 3) : draw.bools(shape));
  }
  return test;
}

RandomCase resize(Draw& draw) {
  const bool image = draw.chance(0.7);
  const Shape shape =
      image ? Shape{draw.integer(1, 2), draw.integer(1, 3), draw.integer(1, 6), draw.integer(1, 6)}
            : Shape{draw.integer(1, 2), draw.integer(1, 3), draw.integer(1, 9)};
  std::vector<float> scales{1, 1};
  for (int axis = 2; axis < shape.rank(); ++axis) {
    auto scale = draw.one_of<float>({0.5F, 1, 1.5F, 2, 2.75F, 3});
    if (static_cast<float>(shape[axis]) * scale < 1) scale = 1;
    scales.push_back(scale);
  }
  RandomCase test{.attributes = {{"scales", scales}}, .inputs = inputs_of(draw.floats(shape))};
  if (draw.chance(0.8)) test.attributes["mode"] = draw.one_of<std::string>({"nearest", "linear"});
  if (draw.chance(0.8)) {
    test.attributes["coordinate_transformation_mode"] =
        draw.one_of<std::string>({"half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"});
  }
  if (draw.chance(0.8)) {
    test.attributes["nearest_mode"] =
        draw.one_of<std::string>({"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  }
  return test;
}

}  // namespace

const std::map<std::string, RandomOp>& random_tensor_ops() {
  static const std::map<std::string, RandomOp> table{
      {"Reshape", {reshape}},
      {"Squeeze", {squeeze}},
      {"Unsqueeze", {unsqueeze}},
      {"Transpose", {transpose}},
      {"Expand", {expand}},
      {"Tile", {tile}},
      {"Concat", {concat}},
      {"Split", {split}},
      {"Slice", {slice}},
      {"Pad", {pad}},
      {"Trilu", {trilu}},
      {"Gather", {gather}},
      {"GatherElements", {gather_elements}},
      {"GatherND", {gather_nd}},
      {"ScatterND", {scatter_nd}},
      {"CumSum", {cumulative_sum}},
      {"Equal", {comparison}},
      {"Less", {comparison}},
      {"LessOrEqual", {comparison}},
      {"Greater", {comparison}},
      {"GreaterOrEqual", {comparison}},
      {"And", {logic}},
      {"Or", {logic}},
      {"Not", {logical_not}},
      {"Where", {where}},
      {"Min", {extremum}},
      {"Max", {extremum}},
      {"Cast", {cast}},
      {"Resize", {resize}},
  };
  return table;
}

}  // namespace rookery::kernel_tests
