// Archives, taken for one of each kind.
#include "models/base/error.hpp"
#include "tests/fuzz/scratch_file.hpp"
#include "trainer/storage/archive.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rookery;
  static const ScratchFile tar("input.tar"), packed("input.tar.gz"), zip("input.zip");
  constexpr std::uint64_t kMost = 1U << 20;
  for (const ScratchFile* file : {&tar, &packed, &zip}) {
    file->fill(data, size);
    try {
      const auto tree = open_archive(open_local_file(file->path()), "", kMost);
      for (const std::string& path : tree->files()) read_whole(*tree->open(path), kMost);
    } catch (const DataError&) {
    }
  }
  return 0;
}
