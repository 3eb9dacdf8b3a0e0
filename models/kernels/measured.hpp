// Measurement tells which kernel is fastest where no rule knows: large convolutions, that have a direct
// algorithm and Winograd's, and large products. Each kernel is timed once for an operator with these
// attributes and types; what was found is kept, so that later choices on the same kind of machine are the
// same.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/kernels/kernel.hpp"

namespace rookery {

// Processor and libraries that a measurement holds for.
std::string measured_machine();

// Seconds that a run of this kernel, which is prepared, takes: the least of several, on numbers of everyday
// size.
double time_kernel(Kernel& kernel, const KernelRequest& request);

class MeasuredKernels {
 public:
  using Timer = std::function<double(Kernel&, const KernelRequest&)>;
  // By operator, attributes and types: the choice that was fastest.
  using Known = std::map<std::string, std::string>;

  explicit MeasuredKernels(Known known = {}, Timer timer = time_kernel);

  // The fastest of these choices ("backend/variant", at least one) that serve the request; what is known
  // already is not measured again.
  std::string fastest(const KernelRequest& request, const std::vector<std::string>& choices);
  const Known& known() const { return known_; }

 private:
  Known known_;
  Timer timer_;
};

}  // namespace rookery
