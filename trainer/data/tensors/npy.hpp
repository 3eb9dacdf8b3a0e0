// Arrays of NumPy (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
#pragma once

#include "trainer/data/tensors/stored_tensor.hpp"

namespace rookery {

// Of a file .npy, whose header alone is read: floats as f32; integers and truth values as i64, but for bytes
// (uint8) in two or more dimensions, which are pixels: f32, divided by `scale`. DataError naming the file for
// what is no such file, is shorter or longer than its header says, lies in Fortran's order, or has numbers of
// another type.
StoredTensor read_npy(const SharedFile& file, float scale);

}  // namespace rookery
