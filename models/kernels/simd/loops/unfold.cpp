// The fields that the windows of a convolution see: im2col and its reverse, by way of a zero-padded copy of
// the image, and without the copy or without columns where two rows of the map are a vector.
#include "models/kernels/simd/loops/vector.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

using Eight [[gnu::vector_size(32)]] = float;
using Four [[gnu::vector_size(16)]] = float;

// map(to, from) over a row in the widest pieces that fit.
template <typename Map>
inline void for_pieces(Index n, Map map) {
  Index i = 0;
  for (; i + 8 <= n; i += 8) map(i, Eight{});
  for (; i + 4 <= n; i += 4) map(i, Four{});
  for (; i < n; ++i) map(i, 0.0F);
}

inline void copy_row(Index n, const float* from, float* to) {
  for_pieces(n, [=](Index i, auto piece) { store(to + i, load_as<decltype(piece)>(from + i)); });
}

inline void add_row(Index n, const float* from, float* to) {
  for_pieces(n, [=](Index i, auto piece) {
    using Piece = decltype(piece);
    store(to + i, load_as<Piece>(to + i) + load_as<Piece>(from + i));
  });
}

// visit(columns row of one tap and output row, the place in `padded` where it begins).
template <typename Visit>
inline void for_each_row(const Unfold& s, Visit visit) {
  Index tap = 0;
  for (Index c = 0; c < s.channels; ++c) {
    for (Index i = 0; i < s.kernel_h; ++i) {
      for (Index j = 0; j < s.kernel_w; ++j, ++tap) {
        const Index corner = (c * s.padded_h + i * s.dilation_h) * s.padded_w + j * s.dilation_w;
        for (Index y = 0; y < s.out_h; ++y) {
          visit(tap * s.row + y * s.out_w, corner + y * s.stride_h * s.padded_w);
        }
      }
    }
  }
}

// visit(row of the image, its place in `padded`).
template <typename Visit>
inline void for_each_image_row(const Unfold& s, Visit visit) {
  for (Index c = 0; c < s.channels; ++c) {
    for (Index y = 0; y < s.in_h; ++y) {
      visit((c * s.in_h + y) * s.in_w, (c * s.padded_h + s.pad_top + y) * s.padded_w + s.pad_left);
    }
  }
}

#if defined(__AVX512F__)

constexpr Index kTaps = 9;
constexpr Index kHalf = kLanes / 2;

// 3 x 3 windows over maps whose rows are half a vector.
inline bool is_half_wide(const Unfold& s) {
  return s.kernel_h == 3 && s.kernel_w == 3 && s.stride_h == 1 && s.stride_w == 1 && s.dilation_h == 1 &&
         s.dilation_w == 1 && s.out_w == kHalf && s.out_h % 2 == 0 && s.pad_left >= 0 &&
         s.pad_left + s.in_w <= kLanes;
}

// What the taps of two rows of outputs see, straight from the image: reading what has just been written in
// other pieces, as the padded copy would have it, stalls for longer than the loads take.
class Fields {
 public:
  explicit Fields(const Unfold& s)
      : in_h_(s.in_h),
        in_w_(s.in_w),
        top_(s.pad_top),
        left_(s.pad_left),
        inside_(static_cast<__mmask16>(((1U << s.in_w) - 1) << s.pad_left)) {
    for (std::int32_t j = 0; j < 3; ++j) {
      alignas(64) std::int32_t lanes[kLanes];
      for (std::int32_t i = 0; i < kLanes; ++i) lanes[i] = j + (i < kHalf ? i : i + std::int32_t{kHalf});
      shifted_[j] = _mm512_load_si512(lanes);
    }
  }

  // visit(tap, vector) for the outputs of the rows y and y + 1.
  template <typename Visit>
  [[gnu::always_inline]] void for_taps(const float* image, Index y, Visit visit) const {
    Floats rows[4];
#pragma GCC unroll 4
    for (Index i = 0; i < 4; ++i) rows[i] = row(image, y + i - top_);
#pragma GCC unroll 9
    for (Index tap = 0; tap < kTaps; ++tap)
      visit(tap, _mm512_permutex2var_ps(rows[tap / 3], shifted_[tap % 3], rows[tap / 3 + 1]));
  }

 private:
  // With zeros around it.
  Floats row(const float* image, Index y) const {
    return y < 0 || y >= in_h_ ? Floats{} : _mm512_maskz_loadu_ps(inside_, image + y * in_w_ - left_);
  }

  Index in_h_, in_w_, top_, left_;
  __mmask16 inside_;
  __m512i shifted_[3];
};

void unfold_half_wide(const Unfold& s, const float* image, float* columns) {
  const Fields fields(s);
  for (Index c = 0; c < s.channels; ++c) {
    for (Index y = 0; y < s.out_h; y += 2) {
      fields.for_taps(image, y,
                      [&](Index tap, Floats seen) { store(columns + tap * s.row + y * kHalf, seen); });
    }
    image += s.in_h * s.in_w;
    columns += kTaps * s.row;
  }
}

void convolve_half_wide(const Unfold& s, Index batch, Index channels, const float* x, const float* weights,
                        const float* bias, bool relu, float* y) {
  const Fields fields(s);
  const Index plane = s.out_h * s.out_w;
  for (Index n = 0; n < batch; ++n) {
    for (Index row = 0; row < s.out_h; row += 2) {
      Floats seen[kTaps];
      fields.for_taps(x + n * s.in_h * s.in_w, row, [&](Index tap, Floats vector) { seen[tap] = vector; });
      float* to = y + n * channels * plane + row * kHalf;
      for (Index o = 0; o < channels; ++o) {
        Floats sum = spread(bias == nullptr ? 0 : bias[o]);
#pragma GCC unroll 9
        for (Index tap = 0; tap < kTaps; ++tap) sum += spread(weights[o * kTaps + tap]) * seen[tap];
        store(to + o * plane, relu ? rectified(sum) : sum);
      }
    }
  }
}

#else

inline bool is_half_wide(const Unfold&) {
  return false;
}
inline void unfold_half_wide(const Unfold&, const float*, float*) {}
inline void convolve_half_wide(const Unfold&, Index, Index, const float*, const float*, const float*, bool,
                               float*) {}

#endif

}  // namespace

void unfold(const Unfold& s, const float* image, float* padded, float* columns) {
  if (is_half_wide(s)) return unfold_half_wide(s, image, columns);
  for_each_image_row(s, [&](Index from, Index to) { copy_row(s.in_w, image + from, padded + to); });
  if (s.stride_w == 1) {
    for_each_row(s, [&](Index to, Index from) { copy_row(s.out_w, padded + from, columns + to); });
  } else {
    for_each_row(s, [&](Index to, Index from) {
      for (Index x = 0; x < s.out_w; ++x) columns[to + x] = padded[from + x * s.stride_w];
    });
  }
}

void fold(const Unfold& s, const float* columns, float* padded, float* image) {
  __builtin_memset(padded, 0, static_cast<std::size_t>(s.channels * s.padded_h * s.padded_w) * sizeof(float));
  if (s.stride_w == 1) {
    for_each_row(s, [&](Index from, Index to) { add_row(s.out_w, columns + from, padded + to); });
  } else {
    for_each_row(s, [&](Index from, Index to) {
      for (Index x = 0; x < s.out_w; ++x) padded[to + x * s.stride_w] += columns[from + x];
    });
  }
  for_each_image_row(s, [&](Index to, Index from) { copy_row(s.in_w, padded + from, image + to); });
}

bool is_shallow(const Unfold& s) {
  return s.channels == 1 && is_half_wide(s);
}

void shallow_convolution(const Unfold& s, Index batch, Index channels, const float* x, const float* weights,
                         const float* bias, bool relu, float* y) {
  convolve_half_wide(s, batch, channels, x, weights, bias, relu, y);
}

}  // namespace rookery::simd::ROOKERY_ISA
