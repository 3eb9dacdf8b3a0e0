// PyTorch's files, archive and all.
#include "models/base/error.hpp"
#include "models/io/state_file.hpp"
#include "tests/fuzz/scratch_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const rookery::ScratchFile file("input.pt");
  file.fill(data, size);
  try {
    rookery::read_state_file(file.path());
  } catch (const rookery::DataError&) {
  }
  return 0;
}
