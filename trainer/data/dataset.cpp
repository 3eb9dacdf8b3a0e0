#include "trainer/data/dataset.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/data/formats.hpp"

namespace rookery {
namespace {

// Where a format's FILE or FOLDER begins: "csv:" of "csv:FILE"; everything where it has none.
std::string_view fixed_part(const DataFormat& format) {
  const std::string_view name = format.name;
  return name.substr(0, std::min(name.find(':'), name.size() - 1) + 1);
}

bool is_named(const DataFormat& format, std::string_view name) {
  const std::string_view fixed = fixed_part(format);
  return fixed.ends_with(':') ? name.starts_with(fixed) : name == fixed;
}

}  // namespace

DataFormat own_format() {
  return {.name = "own:NAME",
          .pattern = "own:.",
          .help = "made by a program of one's own, see docs/library.md",
          .open = nullptr};
}

const std::vector<DataFormat>& data_formats() {
  static const std::vector<DataFormat> formats = [] {
    std::vector<DataFormat> all;
    for (const auto& make : kDataFormats) all.push_back(make());
    return all;
  }();
  return formats;
}

std::string data_pattern() {
  std::vector<std::string> patterns;
  for (const DataFormat& format : data_formats()) patterns.push_back(format.pattern);
  return fmt::format("^({})", fmt::join(patterns, "|"));
}

std::string data_names(std::span<const DataFormat> formats) {
  std::string text;
  for (std::size_t i = 0; i < formats.size(); ++i) {
    if (i > 0) text += i + 1 == formats.size() ? " or " : ", ";
    text += fmt::format("\"{}\"", formats[i].name);
  }
  return text;
}

std::string data_reference() {
  std::string text = "| `data` | what it is |\n|---|---|\n";
  for (const DataFormat& format : data_formats())
    text += fmt::format("| `{}` | {} |\n", format.name, format.help);
  return text;
}

std::unique_ptr<Dataset> open_dataset(const std::string& name, const std::filesystem::path& node_data,
                                      const ReadingSettings& reading) {
  NamedOptions options(name);
  const auto format = std::ranges::find_if(
      data_formats(), [&](const DataFormat& each) { return is_named(each, options.name()); });
  if (format == data_formats().end()) {
    std::vector<DataFormat> to_open = data_formats();
    std::erase_if(to_open, [](const DataFormat& each) { return each.open == nullptr; });
    throw ConfigError(fmt::format("data: '{}' is not {}", name, data_names(to_open)));
  }
  if (format->open == nullptr) {
    options.expect_none_left();
    throw ConfigError(
        fmt::format("data: '{}' is made by a program of one's own, which is the Root in place of "
                    "provider (docs/library.md)",
                    name));
  }
  const std::string_view fixed = fixed_part(*format);
  const bool has_path = fixed.ends_with(':');
  Place where = has_path ? Place::below(node_data, options.name().substr(fixed.size())) : Place(node_data);
  return format->open(options, {.where = std::move(where), .node_data = node_data, .reading = reading});
}

}  // namespace rookery
