// Images in blocks of 16 channels: every place holds its 16 numbers side by side.
#include "models/kernels/simd/loops/vector.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

constexpr Index kParts = kImageBlock / kLanes;  // vectors of a place
constexpr Index kTogether = 4;  // places whose sums run side by side, to hide the latency of additions
// Places of which one part is visited after the other, so that they are read from memory once.
constexpr Index kRun = kParts == 1 ? Index{1} << 40 : 64;

// body(part, first, last) for runs of an image's places.
template <typename Body>
void for_runs(Index plane, Body body) {
  for (Index first = 0; first < plane; first += kRun) {
    const Index last = plane - first < kRun ? plane : first + kRun;
    for (Index part = 0; part < kParts; ++part) body(part, first, last);
  }
}

// Adds term(sums, place, part) over all places of a block; an image at a time, so that sums of sums keep the
// rounding small.
template <int kSums, typename Term>
void sum_places(const ChannelBlock& s, Term term, float* const (&out)[kSums]) {
  Floats totals[kParts][kSums]{};
  for (Index n = 0; n < s.batch; ++n) {
    Floats sums[kParts][kTogether][kSums]{};
    for_runs(s.plane, [&](Index part, Index first, Index last) {
      const Index image = n * s.stride + part * kLanes;
      Index i = first;
      for (; i + kTogether <= last; i += kTogether) {
        for (Index t = 0; t < kTogether; ++t) term(sums[part][t], image + (i + t) * kImageBlock, part);
      }
      for (; i < last; ++i) term(sums[part][0], image + i * kImageBlock, part);
    });
    for (Index part = 0; part < kParts; ++part) {
      for (int k = 0; k < kSums; ++k) {
        totals[part][k] += (sums[part][0][k] + sums[part][1][k]) + (sums[part][2][k] + sums[part][3][k]);
      }
    }
  }
  for (Index part = 0; part < kParts; ++part) {
    for (int k = 0; k < kSums; ++k) store(out[k] + part * kLanes, totals[part][k]);
  }
}

// visit(part) gives what is done to the numbers at a place.
template <typename Visit>
void for_places(const ChannelBlock& s, Visit visit) {
  for (Index n = 0; n < s.batch; ++n) {
    for_runs(s.plane, [&](Index part, Index first, Index last) {
      const auto map = visit(part * kLanes);
      const Index image = n * s.stride + part * kLanes;
      for (Index i = first; i < last; ++i) map(image + i * kImageBlock);
    });
  }
}

template <bool kAdds, bool kRelu>
void normalize(const ChannelBlock& s, const float* x, const float* mean, const float* scale,
               const float* bias, const float* added, float* y) {
  for_places(s, [&](Index part) {
    return [=, means = load(mean + part), scales = load(scale + part), biases = load(bias + part)](Index i) {
      Floats value = (load(x + i) - means) * scales + biases;
      if constexpr (kAdds) value += load(added + i);
      store(y + i, kRelu ? rectified(value) : value);
    };
  });
}

// The taps of the window of an output place that lie in the image: rows [top, bottom), columns [left, right)
// of the image, of which (row, column) is tap (row - first_row) * kernel_w + column - first_column.
struct Field {
  Index first_row, first_column, top, bottom, left, right;

  Field(const BlockedPool& s, Index out_row, Index out_column)
      : first_row(out_row * s.stride_h - s.pad_top),
        first_column(out_column * s.stride_w - s.pad_left),
        top(first_row < 0 ? 0 : first_row),
        bottom(first_row + s.kernel_h < s.in_h ? first_row + s.kernel_h : s.in_h),
        left(first_column < 0 ? 0 : first_column),
        right(first_column + s.kernel_w < s.in_w ? first_column + s.kernel_w : s.in_w) {}

  // visit(place in the image, tap).
  template <typename Visit>
  void for_taps(const BlockedPool& s, Visit visit) const {
    for (Index row = top; row < bottom; ++row) {
      for (Index column = left; column < right; ++column) {
        visit(row * s.in_w + column,
              static_cast<std::int32_t>((row - first_row) * s.kernel_w + column - first_column));
      }
    }
  }
};

// visit(first number of the input plane, of the output place, its field, part).
template <typename Visit>
void for_fields(const BlockedPool& s, Visit visit) {
  Index out = 0;
  for (Index plane = 0; plane < s.planes; ++plane) {
    const Index in = plane * s.in_h * s.in_w * kImageBlock;
    for (Index row = 0; row < s.out_h; ++row) {
      for (Index column = 0; column < s.out_w; ++column, out += kImageBlock) {
        const Field field(s, row, column);
        for (Index part = 0; part < kImageBlock; part += kLanes) visit(in + part, out + part, field);
      }
    }
  }
}

// visit(first number of the input plane, of the output place, the window's rows and columns).
template <typename Visit>
void for_averages(const AveragePool& s, Visit visit) {
  Index out = 0;
  for (Index block = 0; block < s.planes / kImageBlock; ++block) {
    const Index in = block * s.in_h * s.in_w * kImageBlock;
    for (Index row = 0; row < s.out_h; ++row) {
      for (Index column = 0; column < s.out_w; ++column, out += kImageBlock) {
        for (Index part = 0; part < kImageBlock; part += kLanes)
          visit(in + part, out + part, s.rows[row], s.columns[column]);
      }
    }
  }
}

}  // namespace

void block_sums(const ChannelBlock& s, const float* x, float* sums) {
  float* const out[1]{sums};
  sum_places<1>(
      s, [x](Floats(&all)[1], Index i, Index) { all[0] += load(x + i); }, out);
}

void block_squares(const ChannelBlock& s, const float* x, const float* mean, float* squares) {
  Floats means[kParts];
  for (Index part = 0; part < kParts; ++part) means[part] = load(mean + part * kLanes);
  float* const out[1]{squares};
  sum_places<1>(
      s,
      [&](Floats(&sums)[1], Index i, Index part) {
        const Floats difference = load(x + i) - means[part];
        sums[0] += difference * difference;
      },
      out);
}

void block_normalize(const ChannelBlock& s, const float* x, const float* mean, const float* scale,
                     const float* bias, const float* added, bool relu, float* y) {
  const auto run = added != nullptr ? (relu ? normalize<true, true> : normalize<true, false>)
                                    : (relu ? normalize<false, true> : normalize<false, false>);
  run(s, x, mean, scale, bias, added, y);
}

void block_gradient_sums(const ChannelBlock& s, const float* dy, const float* x, const float* mean,
                         float* sum, float* product) {
  float* const out[2]{sum, product};
  sum_places<2>(
      s,
      [&](Floats(&sums)[2], Index i, Index part) {
        const Floats gradient = load(dy + i);
        sums[0] += gradient;
        sums[1] += gradient * (load(x + i) - load(mean + part * kLanes));
      },
      out);
}

void block_gradient(const ChannelBlock& s, const float* dy, const float* x, const float* mean,
                    const float* mean_dy, const float* slope, const float* factor, float* dx) {
  for_places(s, [&](Index part) {
    return [=, means = load(mean + part), mean_dys = load(mean_dy + part), slopes = load(slope + part),
            factors = load(factor + part)](Index i) {
      const Floats centred = load(x + i) - means;
      store(dx + i, (load(dy + i) - mean_dys - centred * slopes) * factors);
    };
  });
}

void blocked_max_pool(const BlockedPool& s, const float* x, float* y, std::uint8_t* window) {
  for_fields(s, [&](Index in, Index out, const Field& field) {
    Floats best{};
    Ints index = Ints{} - 1;
    field.for_taps(s, [&](Index place, std::int32_t tap) {
      const Floats value = load(x + in + place * kImageBlock);
      const Ints better = (value > best) | (value != value) | (index < 0);
      best = better ? value : best;
      index = better ? Ints{} + tap : index;
    });
    store(y + out, best);
    if (window != nullptr) store_bytes(window + out, index);
  });
}

void blocked_max_pool_grad(const BlockedPool& s, const float* dy, const std::uint8_t* window, float* dx) {
  const bool tiles = s.stride_h == s.kernel_h && s.stride_w == s.kernel_w && s.pad_top == 0 &&
                     s.pad_left == 0 && s.out_h * s.stride_h == s.in_h && s.out_w * s.stride_w == s.in_w;
  const Index bytes = s.planes * s.in_h * s.in_w * kImageBlock * static_cast<Index>(sizeof(float));
  if (!tiles) __builtin_memset(dx, 0, bytes);
  for_fields(s, [&](Index in, Index out, const Field& field) {
    const Floats gradient = load(dy + out);
    const Ints index = load_bytes(window + out);
    field.for_taps(s, [&](Index place, std::int32_t tap) {
      float* to = dx + in + place * kImageBlock;
      const Floats share = index == tap ? gradient : Floats{};
      store(to, tiles ? share : load(to) + share);
    });
  });
}

void blocked_average_pool(const AveragePool& s, const float* x, float* y) {
  for_averages(s, [&](Index in, Index out, const Averaged& row, const Averaged& column) {
    Floats sum{};
    for (Index i = row.begin; i < row.end; ++i) {
      Floats of_row{};
      for (Index j = column.begin; j < column.end; ++j)
        of_row += load(x + in + (i * s.in_w + j) * kImageBlock);
      sum += of_row;
    }
    store(y + out, sum / static_cast<float>(row.count * column.count));
  });
}

void blocked_average_pool_grad(const AveragePool& s, const float* dy, float* dx) {
  const Index bytes = s.planes * s.in_h * s.in_w * static_cast<Index>(sizeof(float));
  __builtin_memset(dx, 0, bytes);
  for_averages(s, [&](Index in, Index out, const Averaged& row, const Averaged& column) {
    const Floats share = load(dy + out) / static_cast<float>(row.count * column.count);
    for (Index i = row.begin; i < row.end; ++i) {
      for (Index j = column.begin; j < column.end; ++j) {
        float* to = dx + in + (i * s.in_w + j) * kImageBlock;
        store(to, load(to) + share);
      }
    }
  });
}

}  // namespace rookery::simd::ROOKERY_ISA
