// The sums of losses, and their derivatives.
#include "models/kernels/simd/loops/exponential.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

inline Floats absolute(Floats x) {
  return reinterpret_cast<Floats>(reinterpret_cast<Ints>(x) & 0x7FFFFFFF);
}

// log(1 + e) for e in [0, 1], within 2 units in the last place: the polynomial of Cephes' logf
// (https://netlib.org/cephes/) around 1, above sqrt(2) that of the half.
inline Floats log_of_one_plus(Floats e) {
  const Ints is_large = e > 0.41421356F;
  const Floats z = is_large ? (e - 1.0F) * 0.5F : e;
  const Floats square = z * z;
  Floats p = spread(7.0376836292e-2F);
  p = p * z - 1.1514610310e-1F;
  p = p * z + 1.1676998740e-1F;
  p = p * z - 1.2420140846e-1F;
  p = p * z + 1.4249322787e-1F;
  p = p * z - 1.6668057665e-1F;
  p = p * z + 2.0000714765e-1F;
  p = p * z - 2.4999993993e-1F;
  p = p * z + 3.3333331174e-1F;
  const Floats log = p * square * z - square * 0.5F + z;
  return is_large ? log + 0.693147180559945F : log;
}

struct Weighted {
  Floats factor;  // of softplus(-x)
  Floats power;   // exp(-|x|)
};

inline Weighted weighted(Floats x, Floats t, Floats w) {
  return {(w - 1.0F) * t + 1.0F, exponential(-absolute(x))};
}

inline Floats bce_of(Floats x, Floats t, Floats w) {
  const auto [factor, power] = weighted(x, t, w);
  const Floats softplus = log_of_one_plus(power) + (x < 0 ? -x : Floats{});
  return (1.0F - t) * x + factor * softplus;
}

inline Floats bce_slope_of(Floats x, Floats t, Floats w) {
  const auto [factor, power] = weighted(x, t, w);
  const Floats sigmoid_of_minus = (x < 0 ? spread(1) : power) / (1.0F + power);
  return 1.0F - t - factor * sigmoid_of_minus;
}

// The sum of value(x, t) over n elements.
template <typename Value>
float sum_over(Index n, const float* x, const float* t, Value value) {
  Floats sum{};
  for_vectors(
      n, [&](Index i) { sum += value(load(x + i), load(t + i)); },
      [&](Index i, Index count) {
        sum += first_of(value(load_part(x + i, count), load_part(t + i, count)), count);
      });
  return sum_of(sum);
}

// y = value(x, t).
template <typename Value>
void map_over(Index n, const float* x, const float* t, float* y, Value value) {
  for_vectors(
      n, [&](Index i) { store(y + i, value(load(x + i), load(t + i))); },
      [&](Index i, Index count) {
        store_part(y + i, value(load_part(x + i, count), load_part(t + i, count)), count);
      });
}

inline Floats weights_at(const float* w, Index w_step, Index i, Index count) {
  if (w_step == 0) return spread(*w);
  return count == kLanes ? load(w + i) : load_part(w + i, count);
}

}  // namespace

LogitSums logit_sums(Index n, const float* x, const float* target) {
  Floats logits{};
  Floats targets{};
  Floats products{};
  const auto add = [&](Floats v, Floats t) {
    logits += v;
    targets += t;
    products += v * t;
  };
  for_vectors(
      n, [&](Index i) { add(load(x + i), target == nullptr ? Floats{} : load(target + i)); },
      [&](Index i, Index count) {
        add(load_part(x + i, count), target == nullptr ? Floats{} : load_part(target + i, count));
      });
  return {sum_of(logits), sum_of(targets), sum_of(products)};
}

void cross_entropy_grad(Index n, const float* x, float shift, float scale, float offset, float slope,
                        const float* target, float* y) {
  const auto softmax = [&](Floats v) { return exponential(v - shift) * scale + offset; };
  if (target != nullptr) {
    map_over(n, x, target, y, [&](Floats v, Floats t) { return softmax(v) + t * slope; });
    return;
  }
  for_vectors(
      n, [&](Index i) { store(y + i, softmax(load(x + i))); },
      [&](Index i, Index count) { store_part(y + i, softmax(load_part(x + i, count)), count); });
}

float squared_distance(Index n, const float* x, const float* t) {
  return sum_over(n, x, t, [](Floats a, Floats b) { return (a - b) * (a - b); });
}

void scaled_difference(Index n, float factor, const float* x, const float* t, float* y) {
  map_over(n, x, t, y, [factor](Floats a, Floats b) { return (a - b) * factor; });
}

float distance(Index n, const float* x, const float* t) {
  return sum_over(n, x, t, [](Floats a, Floats b) { return absolute(a - b); });
}

void scaled_sign(Index n, float factor, const float* x, const float* t, float* y) {
  const Floats up = spread(factor);
  map_over(n, x, t, y, [up](Floats a, Floats b) {
    const Floats zero_or_nan = (a - b) * 0.0F;
    return a > b ? up : a < b ? -up : zero_or_nan;
  });
}

float bce(Index n, const float* x, const float* t, const float* w, Index w_step) {
  Floats sum{};
  for_vectors(
      n, [&](Index i) { sum += bce_of(load(x + i), load(t + i), weights_at(w, w_step, i, kLanes)); },
      [&](Index i, Index count) {
        sum += first_of(
            bce_of(load_part(x + i, count), load_part(t + i, count), weights_at(w, w_step, i, count)), count);
      });
  return sum_of(sum);
}

void bce_grad(Index n, float factor, const float* x, const float* t, const float* w, Index w_step, float* y) {
  for_vectors(
      n,
      [&](Index i) {
        store(y + i, bce_slope_of(load(x + i), load(t + i), weights_at(w, w_step, i, kLanes)) * factor);
      },
      [&](Index i, Index count) {
        const Floats slope =
            bce_slope_of(load_part(x + i, count), load_part(t + i, count), weights_at(w, w_step, i, count));
        store_part(y + i, slope * factor, count);
      });
}

}  // namespace rookery::simd::ROOKERY_ISA
