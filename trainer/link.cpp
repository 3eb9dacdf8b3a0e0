#include "trainer/link.hpp"

#include <fmt/format.h>

namespace rookery {

std::string to_string(const MessageKey& key) {
  return fmt::format("{} {} of {} {}, micro-batch {}",
                     key.kind == MessageKind::kForwardActivation ? "activation" : "gradient of", key.edge,
                     key.validation ? "validation batch" : "step", key.step, key.micro_batch);
}

}  // namespace rookery
