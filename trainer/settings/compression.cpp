#include "trainer/settings/compression.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// "0.005": 0, a point, zeros, a digit that is none, and up to eight more.
bool is_share(std::string_view text) {
  if (!text.starts_with("0.") || !std::ranges::all_of(text.substr(2), is_digit)) return false;
  const std::size_t first = text.find_first_not_of('0', 2);
  return first != std::string_view::npos && text.size() - first <= 9;
}

// "topk:SHARE" or "topk:SHARE:BITS"
std::optional<Compression> parse_topk(std::string_view text) {
  constexpr std::string_view kBegin = "topk:";
  if (!text.starts_with(kBegin)) return {};
  text.remove_prefix(kBegin.size());
  const std::size_t colon = text.find(':');
  const std::string_view share = text.substr(0, colon);
  const std::string_view bits = colon == std::string_view::npos ? "32" : text.substr(colon + 1);
  if (!is_share(share) || (bits != "32" && bits != "8" && bits != "2")) return {};
  Compression parsed{.encoding = Encoding::kTopK};
  const auto [end, error] = std::from_chars(share.data(), share.data() + share.size(), parsed.share);
  if (error != std::errc()) return {};  // too small for a number
  std::from_chars(bits.data(), bits.data() + bits.size(), parsed.value_bits);
  return parsed;
}

}  // namespace

Compression parse_compression(const std::string& text) {
  static const std::map<std::string, Encoding> names{{"none", Encoding::kFloat32},
                                                     {"fp16", Encoding::kFloat16},
                                                     {"bf16", Encoding::kBFloat16},
                                                     {"int8", Encoding::kInt8},
                                                     {"int4", Encoding::kInt4}};
  if (const auto name = names.find(text); name != names.end()) return {.encoding = name->second};
  if (const std::optional<Compression> topk = parse_topk(text)) return *topk;
  throw ConfigError(
      fmt::format("averaging/compression: \"{}\" is none of \"none\", \"fp16\", \"bf16\", \"int8\", "
                  "\"int4\", \"topk:SHARE\" and \"topk:SHARE:BITS\", with a share between 0 and 1 and 32, "
                  "8 or 2 bits",
                  text));
}

}  // namespace rookery
