// NumPy's arrays.
#include <vector>

#include "models/base/error.hpp"
#include "tests/fuzz/scratch_file.hpp"
#include "trainer/data/tensors/npy.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rookery;
  static const ScratchFile file("input.npy");
  file.fill(data, size);
  try {
    const StoredTensor array = read_npy(open_local_file(file.path()), 255);
    if (array.type.shape.rank() < 1 || array.type.bytes() == 0) return 0;
    std::vector<std::byte> sample(array.sample_bytes());
    array.read(array.type.shape[0] - 1, 1, sample);
  } catch (const DataError&) {
  }
  return 0;
}
