// safetensors files.
#include "models/base/error.hpp"
#include "models/io/safetensors/safetensors.hpp"
#include "tests/fuzz/scratch_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const rookery::ScratchFile file("input.safetensors");
  file.fill(data, size);
  try {
    rookery::read_safetensors(file.path());
  } catch (const rookery::DataError&) {
  }
  return 0;
}
