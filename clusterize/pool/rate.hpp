// Units of node_configs.json, in those that the arithmetic is done in.
#pragma once

namespace rookery {

inline double bytes_per_second(double mbps) {
  constexpr double kBytesPerMbit = 1e6 / 8;
  return mbps * kBytesPerMbit;
}

}  // namespace rookery
