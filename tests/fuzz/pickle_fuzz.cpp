// The pickles of PyTorch's files: whatever comes is put into a sound archive with a few storages.
#include "models/base/error.hpp"
#include "models/io/pytorch/pytorch.hpp"
#include "tests/fuzz/scratch_file.hpp"
#include "tests/models/io/pytorch/zip_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rookery;
  static const ScratchFile file("input.pt");
  std::vector<ZipMember> members{
      stored("a/data.pkl", std::string(reinterpret_cast<const char*>(data), size))};
  for (const char* key : {"0", "1", "2", "3"})
    members.push_back(stored(std::string("a/data/") + key, std::string(72, '\0')));
  file.fill(zip_of(members));
  try {
    read_pytorch(file.path());
  } catch (const DataError&) {
  }
  return 0;
}
