// LayerNormalization (Ba et al., arXiv 1607.06450), GroupNormalization (Wu and He, arXiv 1803.08494),
// InstanceNormalization (Ulyanov et al., arXiv 1607.08022) and their gradients. Sums in double.
#include <algorithm>
#include <cmath>

#include "models/kernels/backend.hpp"
#include "models/kernels/shapes/shapes.hpp"

namespace rookery::eigen {
namespace {

// visit(place within the row, its element of scale and bias) for every element of row r.
template <typename Visit>
void for_each_of(const RowNormShape& s, std::int64_t r, Visit visit) {
  const std::int64_t first = r % s.groups * s.channels;
  std::int64_t place = 0;
  for (std::int64_t c = 0; c < s.channels; ++c) {
    for (std::int64_t i = 0; i < s.plane; ++i) visit(place++, first + c);
  }
}

std::unique_ptr<Kernel> make_row_norm(const KernelRequest& request) {
  return lambda_kernel([s = row_norm_shape(request)](const Arguments& args) {
    const float* scale = args.in(1);
    const float* bias = args.in(2);
    const auto count = static_cast<double>(s.size());
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const float* x = args.in(0) + r * s.size();
      float* y = args.out(0) + r * s.size();
      double sum = 0;
      for (std::int64_t i = 0; i < s.size(); ++i) sum += x[i];
      const double mean = sum / count;
      double squares = 0;
      for (std::int64_t i = 0; i < s.size(); ++i) squares += (x[i] - mean) * (x[i] - mean);
      const double inverse = 1 / std::sqrt(squares / count + s.epsilon);
      for_each_of(s, r, [&](std::int64_t i, std::int64_t c) {
        const double normal = (x[i] - mean) * inverse;
        y[i] = static_cast<float>(normal * scale[c] + (bias == nullptr ? 0 : bias[c]));
      });
      if (args.out(1) == nullptr) continue;
      args.out(1)[r] = static_cast<float>(mean);
      args.out(2)[r] = static_cast<float>(inverse);
    }
  });
}

// With n = (x - mean) * inverse and g = dy * scale: dx = inverse * (g - mean(g) - n * mean(g n)).
std::unique_ptr<Kernel> make_row_norm_grad(const KernelRequest& request) {
  const RowNormShape s = row_norm_shape(request);
  return lambda_kernel(
      [s](const Arguments& args) {
        const float* scale = args.in(2);
        auto* dscale = reinterpret_cast<double*>(args.scratch);
        double* dbias = dscale + s.scales();
        std::fill_n(dscale, 2 * s.scales(), 0.0);
        const auto count = static_cast<double>(s.size());
        for (std::int64_t r = 0; r < s.rows; ++r) {
          const float* dy = args.in(0) + r * s.size();
          const float* x = args.in(1) + r * s.size();
          const double mean = args.in(3)[r];
          const double inverse = args.in(4)[r];
          double sum = 0;
          double product = 0;
          for_each_of(s, r, [&](std::int64_t i, std::int64_t c) {
            const double normal = (x[i] - mean) * inverse;
            const double g = static_cast<double>(dy[i]) * scale[c];
            sum += g;
            product += g * normal;
            dscale[c] += dy[i] * normal;
            dbias[c] += dy[i];
          });
          if (args.out(0) == nullptr) continue;
          float* dx = args.out(0) + r * s.size();
          for_each_of(s, r, [&](std::int64_t i, std::int64_t c) {
            const double normal = (x[i] - mean) * inverse;
            const double g = static_cast<double>(dy[i]) * scale[c];
            dx[i] = static_cast<float>(inverse * (g - sum / count - normal * product / count));
          });
        }
        for (const std::size_t output : {1U, 2U}) {
          if (float* out = args.out(output)) {
            std::copy_n(output == 1 ? dscale : dbias, s.scales(), out);
          }
        }
      },
      static_cast<std::size_t>(2 * s.scales()) * sizeof(double));
}

}  // namespace

void add_row_norm(KernelTable& table) {
  table.add("LayerNormalization", {make_row_norm});
  table.add("LayerNormalizationGrad", {make_row_norm_grad});
  table.add("GroupNormalization", {make_row_norm});
  table.add("GroupNormalizationGrad", {make_row_norm_grad});
  table.add("InstanceNormalization", {make_row_norm});
  table.add("InstanceNormalizationGrad", {make_row_norm_grad});
}

}  // namespace rookery::eigen
