// Takes the place of the oneDNN back end in programs built without it.
#include "models/kernels/backend.hpp"
#include "models/kernels/precision.hpp"

namespace rookery {

const Backend* onednn_backend() {
  return nullptr;
}

bool has_bf16() {
  return false;
}

std::string onednn_version() {
  return "no oneDNN";
}

}  // namespace rookery
