// The Eigen back end against the definitions, written out naively in double.
#include <gtest/gtest.h>

#include <cmath>

#include "models/base/rng.hpp"
#include "tests/models/kernels/cases.hpp"

namespace rookery::kernel_tests {
namespace {

std::vector<Tensor> on_eigen(const OpCase& test) {
  auto results = run_on("eigen", test);
  EXPECT_TRUE(results.has_value()) << describe(test);
  return std::move(*results);
}

Tensor plain_conv(const OpCase& test, const ConvSpec& spec) {
  const Shape& x = test.inputs[0].shape();
  const Shape& w = test.inputs[1].shape();
  const Window window = conv_window(test.op, x, w);
  Tensor result(test.outputs[0]);
  const Shape& y = result.shape();
  const std::int64_t group_out = spec.out / spec.groups;
  std::size_t place = 0;
  for (std::int64_t n = 0; n < y[0]; ++n) {
    for (std::int64_t o = 0; o < y[1]; ++o) {
      for (std::int64_t i = 0; i < y[2]; ++i) {
        for (std::int64_t j = 0; j < y[3]; ++j, ++place) {
          double sum = spec.bias ? test.inputs[2].as<float>()[o] : 0;
          for (std::int64_t c = 0; c < w[1]; ++c) {
            for (std::int64_t ki = 0; ki < w[2]; ++ki) {
              for (std::int64_t kj = 0; kj < w[3]; ++kj) {
                const std::int64_t row = i * spec.strides[0] + ki * spec.dilations[0] - window.pad_begin[0];
                const std::int64_t column =
                    j * spec.strides[1] + kj * spec.dilations[1] - window.pad_begin[1];
                if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
                const std::int64_t channel = o / group_out * w[1] + c;
                const auto from = ((n * x[1] + channel) * x[2] + row) * x[3] + column;
                const auto weight = ((o * w[1] + c) * w[2] + ki) * w[3] + kj;
                sum += static_cast<double>(test.inputs[0].as<float>()[from]) *
                       test.inputs[1].as<float>()[weight];
              }
            }
          }
          result.as<float>()[place] = static_cast<float>(sum);
        }
      }
    }
  }
  return result;
}

TEST(Reference, Conv) {
  Random random(1);
  for (const ConvSpec& spec : conv_specs()) {
    const OpCase test = conv_case(spec, random);
    EXPECT_LE(difference(plain_conv(test, spec), on_eigen(test)[0]), 1e-6) << describe(test);
  }
}

TEST(Reference, Gemm) {
  Random random(2);
  for (const GemmSpec& s : gemm_specs()) {
    const OpCase test = gemm_case(s, random);
    Tensor expected(test.outputs[0]);
    const auto a = test.inputs[0].as<float>();
    const auto b = test.inputs[1].as<float>();
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < s.k; ++k) {
          sum += static_cast<double>(a[s.trans_a ? k * s.m + i : i * s.k + k]) *
                 b[s.trans_b ? j * s.k + k : k * s.n + j];
        }
        const double c = s.bias ? test.inputs[2].as<float>()[j] : 0;
        expected.as<float>()[i * s.n + j] = static_cast<float>(s.alpha * sum + s.beta * c);
      }
    }
    EXPECT_LE(difference(expected, on_eigen(test)[0]), 1e-5) << describe(test);
  }
}

TEST(Reference, MaxPoolTakesTheFirstOfEquals) {
  Tensor x(DType::kF32, {1, 1, 2, 4});
  const std::vector<float> values{1, 3, 5, 5, 3, 3, 5, 5};
  std::ranges::copy(values, x.as<float>().begin());
  std::vector<Tensor> inputs;
  inputs.push_back(std::move(x));
  const OpCase test = make_case(
      "MaxPool",
      {{"kernel_shape", std::vector<std::int64_t>{2, 2}}, {"strides", std::vector<std::int64_t>{2, 2}}},
      std::move(inputs), {{DType::kF32, {1, 1, 1, 2}}, {DType::kU8, {1, 1, 1, 2}}});
  const auto results = on_eigen(test);
  EXPECT_EQ(results[0].as<float>()[0], 3);
  EXPECT_EQ(results[0].as<float>()[1], 5);
  EXPECT_EQ(results[1].as<std::uint8_t>()[0], 1);
  EXPECT_EQ(results[1].as<std::uint8_t>()[1], 0);
}

TEST(Reference, MaxPoolWindowsPointAtTheirMaxima) {
  Random random(3);
  for (const PoolSpec& spec : pool_specs()) {
    const OpCase test = pool_case(spec, random);
    const auto results = on_eigen(test);
    const Shape& y = test.outputs[0].shape;
    const auto x = test.inputs[0].as<float>();
    std::size_t place = 0;
    for (std::int64_t plane = 0; plane < y[0] * y[1]; ++plane) {
      for (std::int64_t i = 0; i < y[2]; ++i) {
        for (std::int64_t j = 0; j < y[3]; ++j, ++place) {
          float best = -std::numeric_limits<float>::infinity();
          std::int64_t index = -1;
          for (std::int64_t tap = 0; tap < spec.kernel[0] * spec.kernel[1]; ++tap) {
            const std::int64_t row = i * spec.strides[0] - spec.pads[0] + tap / spec.kernel[1];
            const std::int64_t column = j * spec.strides[1] - spec.pads[1] + tap % spec.kernel[1];
            if (row < 0 || row >= spec.x[2] || column < 0 || column >= spec.x[3]) continue;
            const float value = x[(plane * spec.x[2] + row) * spec.x[3] + column];
            if (index >= 0 && value <= best) continue;
            best = value;
            index = tap;
          }
          ASSERT_EQ(results[0].as<float>()[place], best) << describe(test);
          ASSERT_EQ(results[1].as<std::uint8_t>()[place], index) << describe(test);
        }
      }
    }
  }
}

// PyTorch: running = 0.9 * running + 0.1 * batch, with the variance over n - 1; the output uses n. Of a
// single value, which PyTorch refuses, nothing is learnt.
TEST(Reference, BatchNormalizationStatistics) {
  Random random(4);
  for (const Shape& shape : batch_norm_shapes()) {
    const OpCase test = batch_norm_case(shape, true, random);
    const auto results = on_eigen(test);
    const auto x = test.inputs[0].as<float>();
    const std::int64_t plane = shape.elements() / shape[0] / shape[1];
    for (std::int64_t c = 0; c < shape[1]; ++c) {
      std::vector<std::size_t> places;
      for (std::int64_t i = 0; i < shape.elements(); ++i) {
        if (i / plane % shape[1] == c) places.push_back(static_cast<std::size_t>(i));
      }
      const auto n = static_cast<double>(places.size());
      double mean = 0;
      for (const auto i : places) mean += x[i] / n;
      double squares = 0;
      for (const auto i : places) squares += (x[i] - mean) * (x[i] - mean);
      const double inverse = 1 / std::sqrt(squares / n + 1e-5);
      const auto channel = static_cast<std::size_t>(c);
      const double scale = test.inputs[1].as<float>()[channel];
      const double bias = test.inputs[2].as<float>()[channel];
      for (const auto i : places) {
        ASSERT_NEAR(results[0].as<float>()[i], (x[i] - mean) * inverse * scale + bias, 1e-4)
            << describe(test);
      }
      const double keep = n > 1 ? 0.9 : 1;
      EXPECT_NEAR(results[1].as<float>()[channel],
                  keep * test.inputs[3].as<float>()[channel] + (1 - keep) * mean, 1e-6);
      EXPECT_NEAR(results[2].as<float>()[channel],
                  keep * test.inputs[4].as<float>()[channel] + (1 - keep) * squares / std::max(n - 1, 1.0),
                  1e-6);
      EXPECT_NEAR(results[4].as<float>()[channel], mean, 1e-6);
      EXPECT_NEAR(results[5].as<float>()[channel] / inverse, 1, 1e-6);
    }
    EXPECT_EQ(results[3].as<std::int64_t>()[0], 42);
  }
}

// The definition in models/graph/ops/batch_norm_ops.cpp, word by word.
TEST(Reference, DropoutMaskIsPhilox) {
  Random random(5);
  for (const std::string& backend : backends()) {
    const OpCase test = dropout_case({3, 333}, 0.4F, random);
    const auto results = run_on(backend, test);
    if (!results) continue;
    const std::uint64_t stream = (std::uint64_t{12345} << 20) | 3;
    std::int64_t kept_count = 0;
    for (std::uint64_t i = 0; i < 999; ++i) {
      const PhiloxBlock words =
          philox({static_cast<std::uint32_t>(i / 4), 0, static_cast<std::uint32_t>(stream),
                  static_cast<std::uint32_t>(stream >> 32)},
                 rng_key(7, "dropout_1"));
      const bool kept = words[i % 4] >= static_cast<double>(0.4F) * 4294967296.0;
      kept_count += kept ? 1 : 0;
      ASSERT_EQ((*results)[1].as<std::uint8_t>()[i], kept ? 1 : 0) << backend << " " << i;
      ASSERT_EQ((*results)[0].as<float>()[i], kept ? test.inputs[0].as<float>()[i] * (1 / (1 - 0.4F)) : 0);
    }
    EXPECT_GT(kept_count, 500);
    EXPECT_LT(kept_count, 700);
  }
}

TEST(Reference, DropoutDependsOnStepMicroBatchSeedAndName) {
  Random random(6);
  OpCase test = dropout_case({256}, 0.5F, random);
  const Tensor mask = std::move(on_eigen(test)[1]);
  const auto differs = [&] { return !same_bits(mask, on_eigen(test)[1]); };
  EXPECT_FALSE(differs());
  test.context.step += 1;
  EXPECT_TRUE(differs());
  test.context = {.step = 12345, .micro_batch = 4};
  EXPECT_TRUE(differs());
  test.context.micro_batch = 3;
  test.seed = 8;
  EXPECT_TRUE(differs());
  test.seed = 7;
  test.op.name = "dropout_2";
  EXPECT_TRUE(differs());
}

}  // namespace
}  // namespace rookery::kernel_tests
