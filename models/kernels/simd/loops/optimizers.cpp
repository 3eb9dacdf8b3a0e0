// The arithmetic of the optimizers.
#include "models/kernels/simd/loops/vector.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

inline Floats root_of(Floats v) {
#if defined(__AVX512F__)
  return _mm512_sqrt_ps(v);
#elif defined(__AVX2__)
  return _mm256_sqrt_ps(v);
#elif defined(__SSE2__)
  return _mm_sqrt_ps(v);
#else
  Floats root;
  for (Index j = 0; j < kLanes; ++j) root[j] = __builtin_sqrtf(v[j]);
  return root;
#endif
}

// -1, 0 or 1; a NaN stays one.
inline Floats sign_of(Floats v) {
  const Floats of_others = v < 0 ? spread(-1) : v;
  return v > 0 ? spread(1) : of_others;
}

inline Floats kept_of(const KeptChange& kept, Floats before, Floats after) {
  const Floats change = after - before;
  return kept.predicts ? plus_product(after, change, spread(kept.factor)) : change;
}

inline void put(const KeptChange& kept, float* parameter, Index i, Floats before, Floats after) {
  store(parameter + i, after);
  if (kept.to != nullptr) store(kept.to + i, kept_of(kept, before, after));
}

// LAMB's direction before it is scaled.
inline Floats lamb_direction(const LambCoefficients& s, Floats p, Floats m, Floats v) {
  return m * s.mean_scale / (root_of(v) * s.root_scale + s.epsilon) + s.weight_decay * p;
}

}  // namespace

void adam(const AdamCoefficients& s, Index n, float* parameter, const float* gradient, float* mean,
          float* square, const KeptChange& kept) {
  const float inverse_correction = 1 / s.sqrt_correction2;
  for (Index i = 0; i < n; i += kLanes) {
    const Floats p = load(parameter + i);
    const Floats g = load(gradient + i) + s.weight_decay * p;
    const Floats m = s.beta1 * load(mean + i) + s.one_minus_beta1 * g;
    const Floats v = s.beta2 * load(square + i) + s.one_minus_beta2 * (g * g);
    store(mean + i, m);
    store(square + i, v);
    put(kept, parameter, i, p, s.kept * p - s.step_size * m / (root_of(v) * inverse_correction + s.epsilon));
  }
}

void sgd(const SgdCoefficients& s, Index n, float* parameter, const float* gradient, float* velocity,
         const KeptChange& kept) {
  for (Index i = 0; i < n; i += kLanes) {
    const Floats p = load(parameter + i);
    Floats direction = load(gradient + i) + s.weight_decay * p;
    if (velocity != nullptr) {
      const Floats buffer = s.gradient_share * direction + s.momentum * load(velocity + i);
      store(velocity + i, buffer);
      direction = s.nesterov ? direction + s.momentum * buffer : buffer;
    }
    put(kept, parameter, i, p, p - s.learning_rate * direction);
  }
}

void rmsprop(const RmspropCoefficients& s, Index n, float* parameter, const float* gradient, float* square,
             float* mean, float* velocity, const KeptChange& kept) {
  for (Index i = 0; i < n; i += kLanes) {
    const Floats p = load(parameter + i);
    const Floats g = load(gradient + i) + s.weight_decay * p;
    const Floats v = s.alpha * load(square + i) + s.one_minus_alpha * (g * g);
    store(square + i, v);
    Floats variance = v;
    if (mean != nullptr) {
      const Floats m = s.alpha * load(mean + i) + s.one_minus_alpha * g;
      store(mean + i, m);
      variance = v - m * m;
      variance = variance < 0 ? Floats{} : variance;  // by rounding
    }
    Floats direction = g / (root_of(variance) + s.epsilon);
    if (velocity != nullptr) {
      direction += s.momentum * load(velocity + i);
      store(velocity + i, direction);
    }
    put(kept, parameter, i, p, p - s.learning_rate * direction);
  }
}

void lion(const LionCoefficients& s, Index n, float* parameter, const float* gradient, float* mean,
          const KeptChange& kept) {
  for (Index i = 0; i < n; i += kLanes) {
    const Floats p = load(parameter + i);
    const Floats g = load(gradient + i);
    const Floats m = load(mean + i);
    const Floats direction = sign_of(s.beta1 * m + s.one_minus_beta1 * g);
    store(mean + i, s.beta2 * m + s.one_minus_beta2 * g);
    put(kept, parameter, i, p, s.kept * p - s.learning_rate * direction);
  }
}

LambNorms lamb_moments(const LambCoefficients& s, Index n, const float* parameter, const float* gradient,
                       float* mean, float* square) {
  LambNorms norms;
  for (Index begin = 0; begin < n; begin += kLambBlock) {
    Floats parameters{};
    Floats directions{};
    const Index end = begin + kLambBlock < n ? begin + kLambBlock : n;
    const auto advance = [&](Floats p, Floats g, Floats& m, Floats& v) {
      m = s.beta1 * m + s.one_minus_beta1 * g;
      v = s.beta2 * v + s.one_minus_beta2 * (g * g);
      const Floats direction = lamb_direction(s, p, m, v);
      parameters += p * p;
      return direction * direction;
    };
    for_vectors(
        end - begin,
        [&](Index i) {
          Floats m = load(mean + begin + i);
          Floats v = load(square + begin + i);
          directions += advance(load(parameter + begin + i), load(gradient + begin + i), m, v);
          store(mean + begin + i, m);
          store(square + begin + i, v);
        },
        [&](Index i, Index count) {
          Floats m = load_part(mean + begin + i, count);
          Floats v = load_part(square + begin + i, count);
          directions += first_of(
              advance(load_part(parameter + begin + i, count), load_part(gradient + begin + i, count), m, v),
              count);
          store_part(mean + begin + i, m, count);
          store_part(square + begin + i, v, count);
        });
    norms.parameter += static_cast<double>(sum_of(parameters));
    norms.direction += static_cast<double>(sum_of(directions));
  }
  return norms;
}

void lamb_step(const LambCoefficients& s, float step_size, Index n, float* parameter, const float* mean,
               const float* square, const KeptChange& kept) {
  for_vectors(
      n,
      [&](Index i) {
        const Floats p = load(parameter + i);
        put(kept, parameter, i, p, p - step_size * lamb_direction(s, p, load(mean + i), load(square + i)));
      },
      [&](Index i, Index count) {
        const Floats p = load_part(parameter + i, count);
        const Floats direction =
            lamb_direction(s, p, load_part(mean + i, count), load_part(square + i, count));
        const Floats after = p - step_size * direction;
        store_part(parameter + i, after, count);
        if (kept.to != nullptr) store_part(kept.to + i, kept_of(kept, p, after), count);
      });
}

void scale_and_add(Index n, float factor, const float* offsets, float* values) {
  const auto of = [&](Floats value, Floats offset) { return plus_product(offset, value, spread(factor)); };
  for_vectors(
      n, [&](Index i) { store(values + i, of(load(values + i), load(offsets + i))); },
      [&](Index i, Index count) {
        store_part(values + i, of(load_part(values + i, count), load_part(offsets + i, count)), count);
      });
}

}  // namespace rookery::simd::ROOKERY_ISA
