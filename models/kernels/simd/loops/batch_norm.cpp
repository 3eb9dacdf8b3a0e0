// Batch normalization over [batch, channels, plane]: reductions and maps per channel.
#include "models/kernels/simd/loops/elements.hpp"

namespace rookery::simd::ROOKERY_ISA {

namespace {

constexpr Index kTogether = 4;  // channels whose sums run side by side, to hide the latency of additions
constexpr Index kRun = 64;      // samples summed in one go: sums of sums keep the rounding small

// Per channel, the sums of kSums terms: term(sums, place, channel vector data…). With plane == 1 vectors
// run over channels, otherwise over the plane.
template <int kSums>
struct Sums {
  Floats at[kSums];
};

// accumulate(sums, i, c, count): adds the elements [i, i + count) to the sums; they belong to channel c,
// or to channels c, c + 1, … when the plane is one element.
template <int kSums, Index kChannels, typename Accumulate>
void reduce_planes(const BatchNorm& s, Index c, Accumulate accumulate, float* const (&out)[kSums]) {
  Sums<kSums> totals[kChannels]{};
  for (Index first = 0; first < s.batch; first += kRun) {
    Sums<kSums> sums[kChannels]{};
    const Index last = first + kRun < s.batch ? first + kRun : s.batch;
    for (Index n = first; n < last; ++n) {
      for (Index t = 0; t < kChannels; ++t) {
        const Index begin = (n * s.channels + c + t) * s.plane;
        for_vectors(
            s.plane, [&](Index i) { accumulate(sums[t], begin + i, c + t, kLanes); },
            [&](Index i, Index count) { accumulate(sums[t], begin + i, c + t, count); });
      }
    }
    for (Index t = 0; t < kChannels; ++t) {
      for (int k = 0; k < kSums; ++k) totals[t].at[k] += sums[t].at[k];
    }
  }
  for (Index t = 0; t < kChannels; ++t) {
    for (int k = 0; k < kSums; ++k) out[k][c + t] = sum_of(totals[t].at[k]);
  }
}

template <int kSums, typename Accumulate>
void reduce_columns(const BatchNorm& s, Index c, Index count, Accumulate accumulate,
                    float* const (&out)[kSums]) {
  Sums<kSums> total{};
  for (Index first = 0; first < s.batch; first += kRun) {
    Sums<kSums> sums{};
    const Index last = first + kRun < s.batch ? first + kRun : s.batch;
    for (Index n = first; n < last; ++n) accumulate(sums, n * s.channels + c, c, count);
    for (int k = 0; k < kSums; ++k) total.at[k] += sums.at[k];
  }
  for (int k = 0; k < kSums; ++k) {
    if (count == kLanes) {
      store(out[k] + c, total.at[k]);
    } else {
      store_part(out[k] + c, total.at[k], count);
    }
  }
}

template <int kSums, typename Accumulate>
void reduce(const BatchNorm& s, Accumulate accumulate, float* const (&out)[kSums]) {
  if (s.plane == 1) {
    for_vectors(
        s.channels, [&](Index c) { reduce_columns<kSums>(s, c, kLanes, accumulate, out); },
        [&](Index c, Index count) { reduce_columns<kSums>(s, c, count, accumulate, out); });
    return;
  }
  Index c = 0;
  for (; c + kTogether <= s.channels; c += kTogether) reduce_planes<kSums, kTogether>(s, c, accumulate, out);
  for (; c < s.channels; ++c) reduce_planes<kSums, 1>(s, c, accumulate, out);
}

// One number a channel, as the vector that belongs to elements of channel c (see reduce_planes).
struct PerChannel {
  const float* values;
  bool columns;  // the plane is one element

  Floats at(Index c, Index count) const {
    if (!columns) return spread(values[c]);
    return elements(values, c, count);
  }
};

// y = map(i, c, count) everywhere.
template <typename Map>
void map_channels(const BatchNorm& s, float* y, Map map) {
  if (s.plane % kLanes == 0) {
    Index i = 0;
    for (Index n = 0; n < s.batch; ++n) {
      for (Index c = 0; c < s.channels; ++c) {
        for (const Index end = i + s.plane; i < end; i += kLanes) store(y + i, map(i, c, kLanes));
      }
    }
    return;
  }
  const bool columns = s.plane == 1;
  const Index lines = columns ? s.batch : s.batch * s.channels;
  const Index length = columns ? s.channels : s.plane;
  for (Index line = 0, channel = 0; line < lines; ++line) {
    const Index begin = line * length;
    for_vectors(
        length, [&](Index i) { store(y + begin + i, map(begin + i, columns ? i : channel, kLanes)); },
        [&](Index i, Index count) {
          store_part(y + begin + i, map(begin + i, columns ? i : channel, count), count);
        });
    if (++channel == s.channels) channel = 0;
  }
}

}  // namespace

void batch_norm_statistics(const BatchNorm& s, const float* x, float* mean, float* squares) {
  const bool columns = s.plane == 1;
  float* const sum_out[1]{mean};
  reduce<1>(
      s, [x](Sums<1>& sums, Index i, Index, Index count) { sums.at[0] += elements(x, i, count); }, sum_out);
  const auto count_all = static_cast<float>(s.batch * s.plane);
  for (Index c = 0; c < s.channels; ++c) mean[c] /= count_all;
  float* const square_out[1]{squares};
  const PerChannel means{mean, columns};
  reduce<1>(
      s,
      [x, means](Sums<1>& sums, Index i, Index c, Index count) {
        const Floats difference = first_of(elements(x, i, count) - means.at(c, count), count);
        sums.at[0] += difference * difference;
      },
      square_out);
}

void batch_norm_apply(const BatchNorm& s, const float* x, const float* mean, const float* scale,
                      const float* bias, const float* added, bool relu, float* y) {
  const bool columns = s.plane == 1;
  const PerChannel means{mean, columns};
  const PerChannel scales{scale, columns};
  const PerChannel biases{bias, columns};
  map_channels(s, y, [=](Index i, Index c, Index count) {
    Floats value = (elements(x, i, count) - means.at(c, count)) * scales.at(c, count) + biases.at(c, count);
    if (added != nullptr) value += elements(added, i, count);
    return relu ? rectified(value) : value;
  });
}

void batch_norm_sums(const BatchNorm& s, const float* dy, const float* x, const float* mean, float* sum,
                     float* product) {
  const PerChannel means{mean, s.plane == 1};
  float* const out[2]{sum, product};
  reduce<2>(
      s,
      [=](Sums<2>& sums, Index i, Index c, Index count) {
        const Floats gradient = elements(dy, i, count);  // zeros behind the end
        sums.at[0] += gradient;
        sums.at[1] += gradient * (elements(x, i, count) - means.at(c, count));
      },
      out);
}

void batch_norm_grad(const BatchNorm& s, const float* dy, const float* x, const float* mean,
                     const float* mean_dy, const float* slope, const float* factor, float* dx) {
  const bool columns = s.plane == 1;
  const PerChannel means{mean, columns};
  const PerChannel mean_dys{mean_dy, columns};
  const PerChannel slopes{slope, columns};
  const PerChannel factors{factor, columns};
  map_channels(s, dx, [=](Index i, Index c, Index count) {
    const Floats centred = elements(x, i, count) - means.at(c, count);
    return (elements(dy, i, count) - mean_dys.at(c, count) - centred * slopes.at(c, count)) *
           factors.at(c, count);
  });
}

}  // namespace rookery::simd::ROOKERY_ISA
