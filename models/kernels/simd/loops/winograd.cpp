// Winograd's F(4x4, 3x3) (Lavin and Gray, arXiv 1509.09308) at the points 0, +-3/4, +-3/2 and infinity, whose
// powers are exact: a tile of 4 x 4 outputs of a 3 x 3 window takes 36 products instead of 144. With the
// matrices B, G, A of these points Y = A^T [(G W G^T) * (B^T X B)] A, and transposed, for the gradient of the
// weight, dW = G^T [(A dY A^T) * (B^T X B)] G.
//
// Maps of 2 x 2 within a padding of one have matrices of their own, which leave out what is multiplied with
// the padding: 9 products instead of 36, of which 20 were with zeros.
#include "models/kernels/simd/loops/vector.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

constexpr float kA = 0.75F, kB = 1.5F;
constexpr float kA2 = kA * kA, kB2 = kB * kB;
constexpr float kFactorA = 1 / (2 * kA2 * (kA2 - kB2)), kFactorB = 1 / (2 * kB2 * (kB2 - kA2));  // of G

struct Tiles {
  // B^T: 6 to 6.
  struct Input {
    static constexpr int kFrom = 6, kTo = 6;
    static void apply(const Floats* d, Floats* to) {
      const Floats even_a = d[4] - kB2 * d[2];
      const Floats even_b = d[4] - kA2 * d[2];
      const Floats odd_a = kA * (d[3] - kB2 * d[1]);
      const Floats odd_b = kB * (d[3] - kA2 * d[1]);
      to[0] = d[4] - (kA2 + kB2) * d[2] + kA2 * kB2 * d[0];
      to[1] = even_a + odd_a;
      to[2] = even_a - odd_a;
      to[3] = even_b + odd_b;
      to[4] = even_b - odd_b;
      to[5] = d[5] - (kA2 + kB2) * d[3] + kA2 * kB2 * d[1];
    }
  };

  // G: 3 to 6.
  struct Weight {
    static constexpr int kFrom = 3, kTo = 6;
    static void apply(const Floats* g, Floats* to) {
      const Floats even_a = kFactorA * g[0] + kFactorA * kA2 * g[2];
      const Floats even_b = kFactorB * g[0] + kFactorB * kB2 * g[2];
      const Floats odd_a = kFactorA * kA * g[1];
      const Floats odd_b = kFactorB * kB * g[1];
      to[0] = 1 / (kA2 * kB2) * g[0];
      to[5] = g[2];
      to[1] = even_a + odd_a;
      to[2] = even_a - odd_a;
      to[3] = even_b + odd_b;
      to[4] = even_b - odd_b;
    }
  };

  // G^T: 6 to 3.
  struct WeightGradient {
    static constexpr int kFrom = 6, kTo = 3;
    static void apply(const Floats* m, Floats* to) {
      const Floats sum_a = kFactorA * (m[1] + m[2]);
      const Floats sum_b = kFactorB * (m[3] + m[4]);
      const Floats difference_a = kFactorA * kA * (m[1] - m[2]);
      const Floats difference_b = kFactorB * kB * (m[3] - m[4]);
      to[0] = 1 / (kA2 * kB2) * m[0] + sum_a + sum_b;
      to[1] = difference_a + difference_b;
      to[2] = kA2 * sum_a + kB2 * sum_b + m[5];
    }
  };

  // A^T: 6 to 4.
  struct Output {
    static constexpr int kFrom = 6, kTo = 4;
    static void apply(const Floats* m, Floats* to) {
      const Floats sum_a = m[1] + m[2];
      const Floats sum_b = m[3] + m[4];
      const Floats difference_a = m[1] - m[2];
      const Floats difference_b = m[3] - m[4];
      to[0] = m[0] + sum_a + sum_b;
      to[1] = kA * difference_a + kB * difference_b;
      to[2] = kA2 * sum_a + kB2 * sum_b;
      to[3] = kA2 * kA * difference_a + kB2 * kB * difference_b + m[5];
    }
  };

  // A: 4 to 6.
  struct OutputGradient {
    static constexpr int kFrom = 4, kTo = 6;
    static void apply(const Floats* y, Floats* to) {
      const Floats even_a = y[0] + kA2 * y[2];
      const Floats even_b = y[0] + kB2 * y[2];
      const Floats odd_a = kA * y[1] + kA2 * kA * y[3];
      const Floats odd_b = kB * y[1] + kB2 * kB * y[3];
      to[0] = y[0];
      to[5] = y[3];
      to[1] = even_a + odd_a;
      to[2] = even_a - odd_a;
      to[3] = even_b + odd_b;
      to[4] = even_b - odd_b;
    }
  };
};

struct Pairs {
  // B^T: 2 to 3.
  struct Input {
    static constexpr int kFrom = 2, kTo = 3;
    static void apply(const Floats* x, Floats* to) {
      to[0] = x[0] + x[1];
      to[1] = x[1];
      to[2] = x[0];
    }
  };

  // G: 3 to 3.
  struct Weight {
    static constexpr int kFrom = 3, kTo = 3;
    static void apply(const Floats* w, Floats* to) {
      to[0] = w[1];
      to[1] = w[2] - w[1];
      to[2] = w[0] - w[1];
    }
  };

  // G^T: 3 to 3.
  struct WeightGradient {
    static constexpr int kFrom = 3, kTo = 3;
    static void apply(const Floats* m, Floats* to) {
      to[0] = m[2];
      to[1] = m[0] - m[1] - m[2];
      to[2] = m[1];
    }
  };

  // A^T: 3 to 2.
  struct Output {
    static constexpr int kFrom = 3, kTo = 2;
    static void apply(const Floats* m, Floats* to) {
      to[0] = m[0] + m[1];
      to[1] = m[0] + m[2];
    }
  };

  // A: 2 to 3.
  struct OutputGradient {
    static constexpr int kFrom = 2, kTo = 3;
    static void apply(const Floats* y, Floats* to) {
      to[0] = y[0] + y[1];
      to[1] = y[0];
      to[2] = y[1];
    }
  };
};

// Both ways through a square, the columns first: read(i, j) gives what is transformed, write(i, j, vector)
// takes the result.
template <typename Transform, typename Read, typename Write>
[[gnu::always_inline]] inline void transform(Read read, Write write) {
  Floats half[Transform::kTo][Transform::kFrom];
#pragma GCC unroll 6
  for (int j = 0; j < Transform::kFrom; ++j) {
    Floats column[Transform::kFrom], result[Transform::kTo];
#pragma GCC unroll 6
    for (int i = 0; i < Transform::kFrom; ++i) column[i] = read(i, j);
    Transform::apply(column, result);
#pragma GCC unroll 6
    for (int i = 0; i < Transform::kTo; ++i) half[i][j] = result[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < Transform::kTo; ++i) {
    Floats result[Transform::kTo];
    Transform::apply(half[i], result);
#pragma GCC unroll 6
    for (int j = 0; j < Transform::kTo; ++j) write(i, j, result[j]);
  }
}

// Stores to places far apart, one after the other, would wait for each.
template <typename Transform>
inline void prefetch(float* matrices, Index step) {
  for (Index i = 0; i < Transform::kTo * Transform::kTo; ++i) __builtin_prefetch(matrices + i * step, 1);
}

// The transform of an image's part of a tile, zeros around it, to the matrices.
template <typename Transform>
void spread_tile(const WinogradTile& tile, const float* image, float* matrices, Index step) {
  prefetch<Transform>(matrices, step);
  for (Index lane = 0; lane < kImageBlock; lane += kLanes) {
    const auto read = [&](Index i, Index j) {
      const bool inside = i >= tile.top && i < tile.bottom && j >= tile.left && j < tile.right;
      return inside ? load(image + (tile.place + i * tile.row + j) * kImageBlock + lane) : Floats{};
    };
    transform<Transform>(read, [&](Index i, Index j, Floats vector) {
      store(matrices + (i * Transform::kTo + j) * step + lane, vector);
    });
  }
}

template <typename Transform>
void write_tile(const WinogradTile& tile, const float* matrices, Index step, const float* bias, bool relu,
                float* y) {
  for (Index lane = 0; lane < kImageBlock; lane += kLanes) {
    const Floats shift = bias == nullptr ? Floats{} : load(bias + lane);
    const auto read = [&](Index i, Index j) {
      return load(matrices + (i * Transform::kFrom + j) * step + lane);
    };
    transform<Transform>(read, [&](Index i, Index j, Floats sum) {
      if (i < tile.top || i >= tile.bottom || j < tile.left || j >= tile.right) return;
      sum += shift;
      store(y + (tile.place + i * tile.row + j) * kImageBlock + lane, relu ? rectified(sum) : sum);
    });
  }
}

template <typename Transform>
void spread_windows(const float* taps, bool turned, float* matrices, Index step) {
  prefetch<Transform>(matrices, step);
  for (Index lane = 0; lane < kImageBlock; lane += kLanes) {
    const auto read = [&](Index i, Index j) {
      const Index tap = i * 3 + j;
      return load(taps + (turned ? 8 - tap : tap) * kImageBlock + lane);
    };
    transform<Transform>(read, [&](Index i, Index j, Floats vector) {
      store(matrices + (i * Transform::kTo + j) * step + lane, vector);
    });
  }
}

template <typename Transform>
void write_windows(const float* matrices, Index step, float* taps) {
  for (Index lane = 0; lane < kImageBlock; lane += kLanes) {
    const auto read = [&](Index i, Index j) {
      return load(matrices + (i * Transform::kFrom + j) * step + lane);
    };
    transform<Transform>(read, [&](Index i, Index j, Floats vector) {
      store(taps + (i * 3 + j) * kImageBlock + lane, vector);
    });
  }
}

template <typename Matrices>
constexpr Winograd kLoopsOf{.tile = Matrices::Output::kTo,
                            .field = Matrices::Input::kFrom,
                            .matrices = Matrices::Input::kTo* Matrices::Input::kTo,
                            .input = spread_tile<typename Matrices::Input>,
                            .output = write_tile<typename Matrices::Output>,
                            .output_grad = spread_tile<typename Matrices::OutputGradient>,
                            .weight = spread_windows<typename Matrices::Weight>,
                            .weight_grad = write_windows<typename Matrices::WeightGradient>};

}  // namespace

extern const Winograd kWinogradOfTiles = kLoopsOf<Tiles>;
extern const Winograd kWinogradOfPairs = kLoopsOf<Pairs>;

}  // namespace rookery::simd::ROOKERY_ISA
