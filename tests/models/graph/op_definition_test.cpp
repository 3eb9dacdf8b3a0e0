// What the operators' definitions say of them, one against the other.
#include "models/graph/op_definition.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/models/graph/op_form.hpp"

namespace rookery::graph_tests {
namespace {

TEST(OpDefinition, EveryOperatorIsDescribed) {
  for (const std::string& type : operators()) {
    const OpDefinition& definition = op_definition(type);
    const std::optional<OpForm> form = form_of(definition.description);
    ASSERT_TRUE(form) << type << " is described as '" << definition.description << "'";
    EXPECT_EQ(definition.to_training != nullptr,
              definition.description.find("Training form: ") != std::string::npos)
        << type;
    const bool is_gradient = !definition.infer;
    if (is_gradient) {
      EXPECT_FALSE(definition.signature) << type;
      EXPECT_FALSE(definition.differentiate) << type;
      for (const FormTensor& output : form->outputs) EXPECT_TRUE(output.name.starts_with('d')) << type;
    }
  }
}

TEST(OpDefinition, SignaturesAndDescriptionsCountTheSameInputs) {
  for (const std::string& type : operators()) {
    const OpSignature* signature = op_signature(type);
    if (signature == nullptr) continue;
    const OpForm form = form_of(op_definition(type).description).value();
    std::size_t least = signature->inputs.least;
    std::size_t most = signature->inputs.most;
    for (const auto& [position, input] : signature->constant_inputs) {
      EXPECT_LT(position, signature->inputs.most) << type << " " << input.key;
      EXPECT_FALSE(signature->attributes.contains(input.key)) << type << " " << input.key;
      if (position < signature->inputs.least) --least;
      --most;
    }
    if (type == "BatchNormalization") most += 2;  // num_batches_tracked and R, which ONNX does not have
    const auto required =
        std::ranges::count_if(form.inputs, [](const FormTensor& each) { return !each.optional; });
    EXPECT_EQ(static_cast<std::size_t>(required), least) << type;
    EXPECT_EQ(form.inputs.back().repeated ? kManyTensors : form.inputs.size(), most) << type;
    EXPECT_EQ(form.outputs.back().repeated ? kManyTensors : 1, signature->most_outputs) << type;
  }
}

TEST(OpDefinition, AFormIsReadWithWhatMayBeAbsent) {
  const OpForm form = form_of("(X, state bias?, Y?…) -> dX,\ndlast h: and more (of it)").value();
  EXPECT_EQ(form.inputs.size(), 3U);
  EXPECT_TRUE(form.inputs[1].optional && !form.inputs[1].repeated);
  EXPECT_TRUE(form.inputs[2].optional && form.inputs[2].repeated);
  EXPECT_EQ(form.outputs.at(1).name, "dlast h");
  EXPECT_FALSE(form_of("X -> Y"));
  EXPECT_FALSE(form_of("(X) -> Y."));
  EXPECT_EQ(disagreement({0, kNoValue}, form.inputs, false), "");
  EXPECT_EQ(disagreement({kNoValue, 1}, form.inputs, false), "X is absent");
  EXPECT_EQ(disagreement({0, 1, 2}, form.outputs, false), "there are 3, described are 2");
  EXPECT_EQ(disagreement({0, kNoValue}, form.outputs, true), "");
  EXPECT_EQ(disagreement({0}, form.outputs, true), "dlast h is absent");
}

}  // namespace
}  // namespace rookery::graph_tests
