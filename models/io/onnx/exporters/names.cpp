#include "models/io/onnx/exporters/names.hpp"

#include <algorithm>
#include <string_view>

namespace rookery {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

bool is_made_up(const std::string& name) {
  const std::string_view view = name;
  return name.empty() || name.find("::") != std::string::npos || name.find('/') != std::string::npos ||
         is_number(view) || (name.starts_with("val_") && is_number(view.substr(4)));
}

bool is_of_older_exporter(const std::string& name) {
  return name.find("::") != std::string::npos || is_number(name);
}

std::string module_of_node(const std::string& node) {
  if (!node.starts_with('/')) return {};
  std::string module, previous;
  std::size_t begin = 1;
  for (std::size_t end = node.find('/', begin); end != std::string::npos; end = node.find('/', begin)) {
    const std::string part = node.substr(begin, end - begin);
    begin = end + 1;
    // A child of a Sequential repeats its parent: "/body/body.0/Conv".
    if (!previous.empty() && part.starts_with(previous + ".")) {
      module += part.substr(previous.size());
    } else {
      module += (module.empty() ? "" : ".") + part;
    }
    previous = part;
  }
  return module;
}

std::string weight_beside(const std::string& bias) {
  constexpr std::string_view kBias = "bias";
  const bool is_bias = bias == kBias || bias.ends_with(".bias") || bias.ends_with("_bias");
  return is_bias ? bias.substr(0, bias.size() - kBias.size()) + "weight" : std::string();
}

}  // namespace rookery
