// The settings that say how the stages of a cluster send each other activations and gradients.
#pragma once

#include <string>

namespace rookery {

// "none" (as they are, f32), "fp16", "bf16", "int8", "int4": trainer/transport/codec.hpp. The same on all
// links.
struct TransportSettings {
  std::string activations = "none";
  std::string gradients = "none";
  bool operator==(const TransportSettings&) const = default;
};

}  // namespace rookery
