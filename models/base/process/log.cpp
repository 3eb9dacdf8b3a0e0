#include "models/base/process/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/process/terminal.hpp"

namespace rookery {
namespace {

class Sink : public spdlog::sinks::stderr_color_sink_mt {
 public:
  void log(const spdlog::details::log_msg& message) override {
    without_live_lines([&] { spdlog::sinks::stderr_color_sink_mt::log(message); });
  }
};

constexpr std::array<std::pair<const char*, spdlog::level::level_enum>, 6> kLevels = {{
    {"trace", spdlog::level::trace},
    {"debug", spdlog::level::debug},
    {"info", spdlog::level::info},
    {"warn", spdlog::level::warn},
    {"error", spdlog::level::err},
    {"off", spdlog::level::off},
}};

spdlog::level::level_enum level_of(const std::string& name, std::string_view from) {
  const auto* level = std::ranges::find_if(kLevels, [&](const auto& one) { return name == one.first; });
  if (level != kLevels.end()) return level->second;
  throw UsageError(fmt::format("{} {}: must be trace, debug, info, warn, error or off", from, name));
}

std::optional<spdlog::level::level_enum> chosen_level;

}  // namespace

void init_logging(std::string_view who) {
  auto logger = std::make_shared<spdlog::logger>(std::string(who), std::make_shared<Sink>());
  logger->set_pattern("%H:%M:%S.%e %n %^%l%$ %v");
  if (!chosen_level) {
    const char* level = std::getenv("ROOKERY_LOG");
    chosen_level = level != nullptr ? level_of(level, "$ROOKERY_LOG") : spdlog::level::info;
  }
  logger->set_level(*chosen_level);
  spdlog::set_default_logger(std::move(logger));
}

void set_log_level(const std::string& name, std::string_view from) {
  chosen_level = level_of(name, from);
  spdlog::default_logger()->set_level(*chosen_level);
}

}  // namespace rookery
