// Reads a file of weights, whoever wrote it.
#pragma once

#include <filesystem>

#include "models/io/safetensors/safetensors.hpp"

namespace rookery {

// Reads .safetensors (safetensors.hpp) or PyTorch's .pt (pytorch.hpp), told apart by how the file begins;
// only the first has metadata. DataError naming the file, for older formats of PyTorch with what to do about
// it.
SafetensorsFile read_state_file(const std::filesystem::path& path);

}  // namespace rookery
