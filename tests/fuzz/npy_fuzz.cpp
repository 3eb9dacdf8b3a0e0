// NumPy's arrays.
#include "models/base/error.hpp"
#include "tests/fuzz/scratch_file.hpp"
#include "trainer/data/tensors/npy.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rookery;
  static const ScratchFile file("input.npy");
  file.fill(data, size);
  try {
    read_npy(open_local_file(file.path()), 255);
  } catch (const DataError&) {
  }
  return 0;
}
