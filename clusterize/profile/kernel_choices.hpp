// node_data/kernel_choices.json: which kernels were fastest when they were measured, by machine.
#pragma once

#include <filesystem>

#include "models/kernels/measured.hpp"

namespace rookery {

std::filesystem::path kernel_choices_path(const std::filesystem::path& node_data);

// The kernels that were measured on this kind of machine; none when there is no file, or only other machines
// are in it. ConfigError naming file and place when it is damaged.
MeasuredKernels::Known read_kernel_choices(const std::filesystem::path& file, const std::string& machine);

// Puts `known` in the place of what the file says of this machine, if that differs; others stay.
void write_kernel_choices(const std::filesystem::path& file, const std::string& machine,
                          const MeasuredKernels::Known& known);

}  // namespace rookery
