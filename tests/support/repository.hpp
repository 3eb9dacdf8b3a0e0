// What tests read of the repository itself.
#pragma once

#include <filesystem>

namespace rookery {

inline const std::filesystem::path kNodeData = ROOKERY_SOURCE_DIR "/node_data";
// Traces that PyTorch made, by the scripts beside them.
inline const std::filesystem::path kGolden = ROOKERY_SOURCE_DIR "/tests/golden";

}  // namespace rookery
