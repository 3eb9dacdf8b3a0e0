// What tests read of the repository itself, and the programs that were built of it.
#pragma once

#include <filesystem>
#include <string>

namespace rookery {

// Folders of the build that the test belongs to. They are compiled into one small file of each test program,
// so that ccache finds all others again in another copy of the repository.
std::filesystem::path repository_folder();
std::filesystem::path programs_folder();

inline const std::filesystem::path kRepository = repository_folder();
inline const std::filesystem::path kNodeData = kRepository / "node_data";
// Traces that PyTorch made, by the scripts beside them.
inline const std::filesystem::path kGolden = kRepository / "tests/golden";
inline const std::string kPrograms = programs_folder();

}  // namespace rookery
