// How many threads a kernel may use.
#pragma once

namespace rookery {

// For kernels made and run by the calling thread; 1 until set. Results may depend on it, so it must be the
// same when a kernel is made and whenever it runs.
void set_kernel_threads(int threads);
int kernel_threads();

}  // namespace rookery
