// models/io/FORMAT.md says what the operators' signatures say.
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/graph/op_definition.hpp"
#include "tests/support/repository.hpp"

namespace rookery {
namespace {

std::string format_page() {
  return read_file(kRepository / "models/io/FORMAT.md", 1U << 20U);
}

// What lies between two texts of the page.
std::string between(const std::string& page, const std::string& before, const std::string& after) {
  const std::size_t begin = page.find(before);
  const std::size_t end = page.find(after, begin);
  EXPECT_NE(begin, std::string::npos) << before;
  EXPECT_NE(end, std::string::npos) << after;
  return page.substr(begin, end - begin);
}

// The names in backticks.
std::set<std::string> names_in(const std::string& text) {
  const std::regex name("`([A-Z][A-Za-z0-9]*)`");
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) names.insert((*it)[1]);
  return names;
}

std::string tensor_text(AttributeKind kind) {
  using enum AttributeKind;
  const bool is_whole = kind == kInt || kind == kInts;
  const bool is_list = kind == kInts || kind == kFloats;
  return fmt::format("{}[{}]", is_whole ? "i64" : "f32", is_list ? "n" : "");
}

TEST(OnnxFormat, ThePageListsTheOperators) {
  std::set<std::string> expected;
  for (const std::string& type : operators()) {
    if (op_signature(type) != nullptr) expected.insert(type);
  }
  EXPECT_EQ(names_in(between(format_page(), "Operators, with those", "- **Functions**")), expected);
}

TEST(OnnxFormat, ThePageListsTheConstantInputs) {
  std::set<std::string> expected;
  for (const std::string& type : operators()) {
    const OpSignature* signature = op_signature(type);
    if (signature == nullptr || signature->constant_inputs.empty()) continue;
    std::string inputs;
    for (const auto& [position, input] : signature->constant_inputs)
      inputs += fmt::format("{}`{}` {}", inputs.empty() ? "" : ", ", input.key, tensor_text(input.kind));
    expected.insert(fmt::format("| `{}` | {} |", type, inputs));
  }
  const std::string table =
      between(format_page(), "- **Inputs that are attributes", "- **BatchNormalization**");
  const std::regex row("\\| `.*\\|");
  std::set<std::string> rows;
  for (std::sregex_iterator it(table.begin(), table.end(), row), end; it != end; ++it) rows.insert(it->str());
  EXPECT_EQ(rows, expected);
}

}  // namespace
}  // namespace rookery
