// PyTorch's .pt: a zip archive (stored) of a protocol-2 pickle of an OrderedDict of tensors and one
// member per storage, as torch.save writes it. torch.load(weights_only=True) of any PyTorch >= 1.13
// reads it. See FORMAT.md.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/graph/initialize.hpp"

namespace rookery {

// Atomic. Tensors appear in `order` (names), as a module's state_dict lists them.
void write_pytorch(const std::filesystem::path& path, const StateDict& tensors,
                   const std::vector<std::string>& order);

}  // namespace rookery
