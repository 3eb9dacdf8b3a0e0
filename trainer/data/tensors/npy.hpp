// Arrays of NumPy (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
#pragma once

#include "models/tensor/tensor.hpp"
#include "trainer/storage/random_file.hpp"

namespace rookery {

// Of a file .npy: floats as f32; integers and truth values as i64, but for bytes (uint8) in two or more
// dimensions, which are pixels: f32, divided by `scale`. DataError naming the file for what is no such file,
// is shorter or longer than its header says, lies in Fortran's order, or has numbers of another type.
Tensor read_npy(const SharedFile& file, float scale);

}  // namespace rookery
