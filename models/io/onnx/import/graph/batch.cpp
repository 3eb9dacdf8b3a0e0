#include "models/io/onnx/import/graph/batch.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/ops/element_ranges.hpp"

namespace rookery {
namespace {

using Integers = std::vector<std::int64_t>;

// Without 0 and -1.
Integers resolved(const Shape& from, Integers to, bool allow_zero) {
  const Integers given = to;
  const auto wrong = [&] {
    return DataError(fmt::format("{} does not become [{}]", from.to_string(), fmt::join(given, ", ")));
  };
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && !allow_zero && std::cmp_less(i, from.rank())) to[i] = from[static_cast<int>(i)];
    if (to[i] == -1 && !open) {
      open = i;
      to[i] = 1;
    }
    if (to[i] < 1) throw wrong();
  }
  const std::int64_t others = checked_shape(to).elements();
  const std::int64_t all = from.elements();
  if (all % others != 0 || (!open && all != others)) throw wrong();
  if (open) to[*open] = all / others;
  return to;
}

// `to`, a shape at a batch of `size`, with the dimension open that begins with the batch: as many elements
// lie before it as in `from`. So the batch is the outermost part of its dimension everywhere. A batch of one
// leaves no trace in a product, and must stand alone.
Integers carried(const AtProbes<Shape>& from, Integers to, std::int64_t size) {
  const std::optional<int> axis = batch_axis(from);
  if (!axis) throw DataError(fmt::format("{} has the batch in several dimensions", from[0].to_string()));
  std::int64_t before = 1;
  for (int i = 0; i < *axis; ++i) before *= from[0][i];
  std::int64_t passed = 1;
  for (std::int64_t& dim : to) {
    if (passed == before && (dim == size || (size > 1 && dim % size == 0))) {
      dim = -1;
      return to;
    }
    passed *= dim;
  }
  throw DataError(
      fmt::format("where the samples of {} lie in [{}] is not certain: export with dynamic_axes={{'INPUT': "
                  "{{0: 'batch'}}}}",
                  from[0].to_string(), fmt::join(to, ", ")));
}

}  // namespace

std::optional<int> batch_axis(const AtProbes<Shape>& shapes) {
  std::optional<int> axis;
  for (int i = 0; i < shapes[0].rank(); ++i) {
    if (shapes[0][i] == shapes[1][i]) continue;
    if (axis) return std::nullopt;
    axis = i;
  }
  return axis;
}

Integers shape_for_any_batch(const AtProbes<Shape>& from, const AtProbes<Integers>& to, bool allow_zero,
                             std::optional<std::int64_t> fixed) {
  const bool depends = from[0] != from[1];
  if (fixed && depends && std::ranges::count(to, to[0]) == std::ssize(to))
    return carried(from, resolved(from[0], to[0], allow_zero), *fixed);
  AtProbes<Integers> dims;
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    dims[probe] = resolved(from[probe], to[probe], allow_zero);
    if (dims[probe].size() != dims[0].size()) throw DataError("its rank depends on the batch size");
  }
  Integers shape = dims[0];
  bool has_open = false;
  for (std::size_t i = shape.size(); i-- > 0;) {
    const auto same = [&](std::size_t probe) {
      return std::cmp_less(i, from[probe].rank()) && from[probe][static_cast<int>(i)] == dims[probe][i];
    };
    if (dims[1][i] == dims[0][i] && dims[2][i] == dims[0][i]) continue;
    if (has_open && !(same(0) && same(1) && same(2)))
      throw DataError(
          fmt::format("[{}] depends on the batch size in several dimensions", fmt::join(shape, ", ")));
    shape[i] = has_open ? 0 : -1;
    has_open = true;
  }
  return shape;
}

}  // namespace rookery
