// im2col and its reverse, by way of a zero-padded copy of the image.
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

// Maps whose rows are half a vector, straight from the image, two rows at a time. Reading what has just
// been written in other pieces, as the padded copy would have it, stalls for longer than the loads take.
inline bool is_half_wide(const Unfold& s) {
  return s.out_w == kLanes / 2 && s.out_h % 2 == 0 && s.stride_w == 1;
}

void unfold_half_wide(const Unfold& s, const float* image, float* columns) {
  for (Index c = 0; c < s.channels; ++c) {
    for (Index i = 0; i < s.kernel_h; ++i) {
      for (Index j = 0; j < s.kernel_w; ++j, columns += s.row) {
        const Index shift = j * s.dilation_w - s.pad_left;
        const Index begin = shift < 0 ? -shift : 0;
        const Index end = s.in_w - shift < kLanes / 2 ? s.in_w - shift : kLanes / 2;
        const auto inside = static_cast<__mmask8>(begin < end ? (1 << end) - (1 << begin) : 0);
        const auto row = [&](Index y) {
          const Index from = y * s.stride_h + i * s.dilation_h - s.pad_top;
          if (from < 0 || from >= s.in_h) return __m256{};
          return _mm256_maskz_loadu_ps(inside, image + from * s.in_w + shift);
        };
        for (Index y = 0; y < s.out_h; y += 2) {
          const __m512 first = _mm512_castps256_ps512(row(y));
          store(columns + y * s.out_w, _mm512_insertf32x8(first, row(y + 1), 1));
        }
      }
    }
    image += s.in_h * s.in_w;
  }
}

#else

inline bool is_half_wide(const Unfold&) {
  return false;
}
inline void unfold_half_wide(const Unfold&, const float*, float*) {}

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

}  // namespace rookery::simd::ROOKERY_ISA
