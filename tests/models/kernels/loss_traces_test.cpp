// Losses and gradients are those of PyTorch (tests/golden/make_loss_traces.py).
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>

#include "models/base/files/json_file.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/named_rows.hpp"
#include "models/graph/passes/loss.hpp"
#include "tests/models/kernels/cases.hpp"
#include "tests/support/repository.hpp"

namespace rookery::kernel_tests {
namespace {

Shape shape_from(const Json& json) {
  const auto dims = json.get<std::vector<std::int64_t>>();
  return Shape(std::span<const std::int64_t>(dims));
}

template <typename Number>
Tensor tensor_from(const Json& numbers, const Shape& shape) {
  Tensor tensor(dtype_of<Number>(), shape);
  std::ranges::copy(numbers.get<std::vector<Number>>(), tensor.as<Number>().begin());
  return tensor;
}

std::string name_of(const Json& trace) {
  return trace.at("loss").at("name").get<std::string>();
}

OpCase case_from(const Json& trace) {
  std::map<std::string, Attribute> attributes;
  for (const auto& [key, value] : trace.at("loss").items()) {
    if (key == "ignore_index" || key == "class_axis") attributes[key] = value.get<std::int64_t>();
    if (key == "label_smoothing") attributes[key] = value.get<float>();
    if (key == "pos_weight")
      attributes[key] =
          value.is_array() ? value.get<std::vector<float>>() : std::vector<float>{value.get<float>()};
  }
  const Shape target = shape_from(trace.at("target_shape"));
  const LossKind* kind = find_row(loss_kinds(), name_of(trace));
  EXPECT_NE(kind, nullptr) << name_of(trace);
  return loss_case(kind->op_type, tensor_from<float>(trace.at("output"), shape_from(trace.at("shape"))),
                   trace.at("classes").get<bool>() ? tensor_from<std::int64_t>(trace.at("target"), target)
                                                   : tensor_from<float>(trace.at("target"), target),
                   attributes);
}

TEST(LossTraces, LossesAndGradientsAreThoseOfPyTorch) {
  const Json traces = read_json(kGolden / "loss_traces.json");
  const auto all = std::ssize(traces);
  std::map<std::string, int> compared;
  for (const Json& trace : traces) {
    const OpCase forward = case_from(trace);
    const OpCase gradient = loss_gradient(forward);
    const auto value = trace.at("value").get<double>();
    const auto slopes = trace.at("gradient").get<std::vector<double>>();
    for (const std::string& backend : backends()) {
      const auto loss = run_on(backend, forward);
      if (!loss) continue;
      SCOPED_TRACE(backend + ": " + trace.at("loss").dump());
      EXPECT_NEAR((*loss)[0].as<float>()[0], value, 1e-5 * std::max(1.0, std::abs(value)));
      const auto result = run_on(backend, gradient);
      const auto ours = (*result)[0].as<float>();
      ASSERT_EQ(ours.size(), slopes.size());
      for (std::size_t i = 0; i < slopes.size(); ++i)
        EXPECT_NEAR(ours[i], slopes[i], 2e-6) << "element " << i;
      ++compared[backend];
    }
  }
  EXPECT_EQ(compared["eigen"], all);
  EXPECT_EQ(compared["simd"], 18) << "all but those with other axes behind the classes";
}

TEST(LossTraces, AreThereForEveryLossThatHasATarget) {
  std::set<std::string> traced;
  for (const Json& trace : read_json(kGolden / "loss_traces.json")) traced.insert(name_of(trace));
  for (const LossKind& kind : loss_kinds())
    EXPECT_EQ(traced.contains(kind.name), kind.has_target) << kind.name;
}

}  // namespace
}  // namespace rookery::kernel_tests
