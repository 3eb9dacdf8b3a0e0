// A folder with a pair of IDX files: the first two bytes of an input are the length of that of the labels,
// which follows; the rest is that of the images.
#include <algorithm>
#include <array>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "tests/support/scratch_folder.hpp"
#include "trainer/data/readers.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rookery;
  static const ScratchFolder folder;
  constexpr std::uint64_t kMost = 1U << 20;
  if (size < 2) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t labels = std::min<std::size_t>(rest.size(), std::size_t{256} * data[0] + data[1]);
  const std::array<std::pair<const char*, std::string_view>, 2> files{
      {{"x-labels-idx1-ubyte", rest.substr(0, labels)}, {"x-images-idx3-ubyte", rest.substr(labels)}}};
  for (const char* ending : {"", ".gz"}) {
    for (const auto& [name, bytes] : files)
      write_file(folder.path() / (std::string(name) + ending), std::string(bytes));
    try {
      const auto set = read_idx(folder.path(), true, kMost);
      std::vector<std::int64_t> last{set->size() - 1};
      Tensor sample(DType::kF32, set->tensors().at("input").shape.with_batch(1));
      set->gather("input", last, sample.view());
    } catch (const DataError&) {
    }
    for (const auto& [name, bytes] : files)
      std::filesystem::remove(folder.path() / (std::string(name) + ending));
  }
  return 0;
}
