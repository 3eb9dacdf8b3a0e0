// The keys of `transport`.
#include "trainer/settings/keys/key_builders.hpp"

namespace rookery {
namespace {

const std::vector<std::string> kOfActivations{"none", "fp16",     "bf16",     "int8",
                                              "int4", kInt8Delta, kInt4Delta, kAutoTransport};
const std::vector<std::string> kOfGradients{"none", "fp16", "bf16", "int8", "int4", kAutoTransport};

}  // namespace

const std::vector<SettingsKey>& transport_keys() {
  using S = TrainingSettings;
  static const std::vector<SettingsKey> keys{
      choice_key(
          "activations", kOfActivations, [](S& s) -> std::string& { return s.transport.activations; },
          "how values travel from stage to stage of a cluster, in validation, too: as they are, rounded to "
          "16 "
          "bits, or in blocks of 8 or 4 bits a number with one scale each. Token ids, labels, masks and all "
          "else that the data set has travel as they are. What is rounded depends on the cut. `int8_delta`, "
          "`int4_delta`: of each training sample the difference from what came of it the last time (arXiv "
          "2206.01299), of which both ends keep a copy in f32; the first time, and in validation, `fp16`. "
          "`auto`: clusterize chooses for each link: as they are, or where the simulated step is shorter for "
          "it `fp16` or `int8`, the mildest with which it is as short"),
      choice_key(
          "gradients", kOfGradients, [](S& s) -> std::string& { return s.transport.gradients; },
          "the same of the gradients of these values; those of parameters that stages share travel as they "
          "are. `auto`: likewise `bf16` or `int8`")};
  return keys;
}

}  // namespace rookery
