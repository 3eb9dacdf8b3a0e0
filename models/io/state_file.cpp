#include "models/io/state_file.hpp"

#include <array>
#include <fstream>
#include <string_view>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/io/pytorch/pytorch.hpp"

namespace rookery {

SafetensorsFile read_state_file(const std::filesystem::path& path) {
  constexpr std::size_t kTarMagic = 257;  // where a tar archive says so
  std::array<char, kTarMagic + 5> begin{};
  std::ifstream stream(path, std::ios::binary);
  stream.read(begin.data(), begin.size());
  const std::string_view text(begin.data(), begin.size());
  if (text.starts_with("PK")) return {.tensors = read_pytorch(path), .metadata = {}};
  // Before PyTorch 1.6: pickles one after the other; before 0.1.10: a tar archive.
  if (text.starts_with("\x80\x02\x8a\x0a") || text.substr(kTarMagic) == "ustar") {
    throw DataError(
        fmt::format("{}: this is PyTorch's format from before 1.6: open it with PyTorch and save it again: "
                    "torch.save(torch.load(FILE), NEW_FILE)",
                    path.string()));
  }
  return read_safetensors(path);
}

}  // namespace rookery
