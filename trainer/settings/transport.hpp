// The settings that say how the stages of a cluster send each other activations and gradients.
#pragma once

#include <string>

namespace rookery {

// "none" (as they are, f32), "fp16", "bf16", "int8", "int4": trainer/encoding/codec.hpp. In train.json also
// "auto": clusterize chooses for each link.
struct TransportSettings {
  std::string activations = "none";
  std::string gradients = "none";
  bool operator==(const TransportSettings&) const = default;
};
inline constexpr const char* kAutoTransport = "auto";

inline bool is_auto(const TransportSettings& transport) {
  return transport.activations == kAutoTransport || transport.gradients == kAutoTransport;
}

}  // namespace rookery
