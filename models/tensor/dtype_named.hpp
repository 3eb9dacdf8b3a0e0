// Types by their names.
#pragma once

#include <optional>
#include <string>

#include "models/tensor/tensor.hpp"

namespace rookery {

// The type that name_of() calls so; nothing when there is none.
std::optional<DType> dtype_named(const std::string& name);

}  // namespace rookery
