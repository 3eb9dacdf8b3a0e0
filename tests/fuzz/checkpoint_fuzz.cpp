// What a checkpoint's part says besides its tensors: the run, the settings and the kernels, a line each.
// Their checksum is right, which whoever makes a file can see to.
#include <sstream>

#include "models/base/error.hpp"
#include "models/base/files/file_calls.hpp"
#include "models/io/checkpoint/checked_file.hpp"
#include "tests/support/scratch_folder.hpp"
#include "trainer/checkpoint/checkpoint_part.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rookery;
  static const ScratchFolder folder;
  file_calls().fsync = [](int /*descriptor*/) { return 0; };  // nothing is to survive
  Metadata metadata{{"format", "rookery.checkpoint"},
                    {"version", "1"},
                    {"plan_id", "0123456789abcdef"},
                    {"stage", "0"},
                    {"stages", "1"}};
  std::istringstream lines(std::string(reinterpret_cast<const char*>(data), size));
  for (const char* key : {"run", "settings", "kernels"}) std::getline(lines, metadata[key]);
  const std::filesystem::path path = folder.path() / "0123456789abcdef_0_of_1.safetensors";
  try {
    write_checked(path, {}, metadata);
    const PartReader part(path);
  } catch (const DataError&) {
  }
  return 0;
}
