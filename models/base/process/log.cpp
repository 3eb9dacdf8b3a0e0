#include "models/base/process/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdlib>
#include <string>

#include "models/base/process/terminal.hpp"

namespace rookery {
namespace {

class Sink : public spdlog::sinks::stderr_color_sink_mt {
 public:
  void log(const spdlog::details::log_msg& message) override {
    without_live_lines([&] { spdlog::sinks::stderr_color_sink_mt::log(message); });
  }
};

}  // namespace

void init_logging(std::string_view who) {
  auto logger = std::make_shared<spdlog::logger>(std::string(who), std::make_shared<Sink>());
  logger->set_pattern("%H:%M:%S.%e %n %^%l%$ %v");
  const char* level = std::getenv("ROOKERY_LOG");
  logger->set_level(level != nullptr ? spdlog::level::from_str(level) : spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace rookery
