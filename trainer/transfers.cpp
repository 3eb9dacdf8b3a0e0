#include "trainer/transfers.hpp"

namespace rookery {

std::vector<Transfer> transfers(const Stage& stage, std::int64_t micro_batch) {
  const std::vector<TensorType> types = stage.graph.types(micro_batch);
  std::vector<Transfer> found;
  const auto add = [&](int peer, const std::string& value, bool is_sent) {
    if (peer == kNoStage) return;
    const TensorType& type = types[stage.graph.at(value)];
    found.push_back({peer, is_sent, static_cast<std::int64_t>(type.bytes())});
  };
  for (const StageInput& input : stage.inputs) {
    add(input.from, input.value, false);
    add(input.gradient_from, input.value, false);
    add(input.gradient_to, input.value, true);
  }
  for (const StageOutput& output : stage.outputs) {
    for (const int peer : output.to) add(peer, output.value, true);
    add(output.gradient_from, output.value, false);
  }
  for (const SharedParameter& shared : stage.shared) {
    add(shared.from, shared.parameter, false);
    add(shared.gradient_from, shared.parameter, false);
    add(shared.to, shared.parameter, true);
    add(shared.gradient_to, shared.parameter, true);
  }
  return found;
}

}  // namespace rookery
