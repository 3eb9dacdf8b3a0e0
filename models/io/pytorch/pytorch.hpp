// PyTorch's .pt: a zip archive of a pickle of an OrderedDict of tensors and one member per storage, as
// torch.save writes it from PyTorch 1.6 on. See FORMAT.md.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "models/graph/state/state_dict.hpp"

namespace rookery {

// Atomic. Tensors appear in `order` (names), as a module's state_dict lists them; `versions`, where there are
// any, are those of its modules, which state_dict has as _metadata. torch.load(weights_only=True) of any
// PyTorch >= 1.13 reads it.
void write_pytorch(const std::filesystem::path& path, const StateViews& tensors,
                   const std::vector<std::string>& order,
                   const std::vector<std::pair<std::string, std::int64_t>>& versions = {});
void write_pytorch(const std::filesystem::path& path, const StateDict& tensors,
                   const std::vector<std::string>& order);

// Reads a state dict, of any PyTorch and pickle protocol, as data: nothing that the file names is ever
// called. Tensors come row-major, whatever their strides, and each with elements of its own, where the file
// has some share theirs; f16 and bf16 come as f32. DataError naming file, tensor or opcode for anything that
// is not a complete state dict of dtypes that we have, and before memory is taken for one that would take
// more than 16 times the file and 64 MiB.
StateDict read_pytorch(const std::filesystem::path& path);

}  // namespace rookery
