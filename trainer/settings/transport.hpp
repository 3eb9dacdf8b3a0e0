// The settings that say how the stages of a cluster send each other activations and gradients.
#pragma once

#include <string>

namespace rookery {

// "none" (as they are, f32), "fp16", "bf16", "int8", "int4": trainer/encoding/codec.hpp. Activations also
// "int8_delta", "int4_delta": by their difference from the sample's last ones
// (trainer/encoding/reconstructions.hpp). In train.json also "auto": clusterize chooses for each link.
struct TransportSettings {
  std::string activations = "none";
  std::string gradients = "none";
  bool operator==(const TransportSettings&) const = default;
};
inline constexpr const char* kAutoTransport = "auto";

inline constexpr const char* kInt8Delta = "int8_delta";
inline constexpr const char* kInt4Delta = "int4_delta";
inline constexpr const char* kFirstOfDelta = "fp16";  // how travels what there is no difference of

inline bool is_delta(const std::string& encoding) {
  return encoding == kInt8Delta || encoding == kInt4Delta;
}
// How differences are encoded.
inline std::string encoding_of_delta(const std::string& encoding) {
  return encoding == kInt8Delta ? "int8" : "int4";
}

inline bool is_auto(const TransportSettings& transport) {
  return transport.activations == kAutoTransport || transport.gradients == kAutoTransport;
}

}  // namespace rookery
