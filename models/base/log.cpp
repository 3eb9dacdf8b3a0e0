#include "models/base/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdlib>
#include <string>

namespace rookery {

void init_logging(std::string_view who) {
  auto logger = std::make_shared<spdlog::logger>(std::string(who),
                                                 std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%H:%M:%S.%e %n %^%l%$ %v");
  const char* level = std::getenv("ROOKERY_LOG");
  logger->set_level(level != nullptr ? spdlog::level::from_str(level) : spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace rookery
