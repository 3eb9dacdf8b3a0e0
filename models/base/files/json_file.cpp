#include "models/base/files/json_file.hpp"

#include <set>
#include <string>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"

namespace rookery {
namespace {

constexpr std::uint64_t kMaxJsonBytes = 64ULL << 20;
constexpr int kMaxJsonDepth = 64;

// Refuses what the parser itself lets pass: keys given twice and towers of brackets.
class StrictKeys {
 public:
  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    if (depth > kMaxJsonDepth) throw ConfigError(fmt::format("more than {} levels deep", kMaxJsonDepth));
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key && !keys_.back().insert(parsed.get<std::string>()).second) {
      throw ConfigError(fmt::format("key {} is there twice", parsed.dump()));
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> keys_;
};

bool validate(const Json& document, const Json& schema, valijson::ValidationResults* results) {
  valijson::Schema parsed;
  valijson::SchemaParser parser;
  parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(schema), parsed);
  valijson::Validator validator;
  return validator.validate(parsed, valijson::adapters::NlohmannJsonAdapter(document), results);
}

// valijson names a place as ["<root>", "[nodes]", "[1]"]; ours reads nodes/1.
std::string place_of(const std::vector<std::string>& context) {
  std::string place;
  for (std::string part : context) {
    if (part == "<root>") continue;
    if (part.size() > 2 && part.front() == '[') part = part.substr(1, part.size() - 2);
    place += (place.empty() ? "" : "/") + part;
  }
  return place.empty() ? "top level" : place;
}

}  // namespace

Json read_json(const std::filesystem::path& path) {
  const std::string text = read_file(path, kMaxJsonBytes);
  return with_context(path.string(), [&] {
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) throw ConfigError("the file is empty");
    try {
      StrictKeys strict;
      return Json::parse(text, std::ref(strict));
    } catch (const Json::exception& error) {  // also out_of_range: 1e999
      // "[json.exception.parse_error.101] parse error at line 3, column 5: …"
      std::string message = error.what();
      message = message.substr(message.find("] ") + 2);
      constexpr std::string_view kParseError = "parse error at ";
      if (message.starts_with(kParseError)) message = message.substr(kParseError.size());
      throw ConfigError(fmt::format("not JSON: {}", message));
    }
  });
}

void validate_json(const Json& document, const Json& schema, std::string_view file) {
  valijson::ValidationResults results;
  if (validate(document, schema, &results)) return;
  std::set<std::string> problems;
  for (const auto& error : results) {
    if (error.description.starts_with("Failed to validate against schema associated with") ||
        error.description.starts_with("Failed to validate item")) {
      continue;  // the parents of the place that is wrong
    }
    problems.insert(place_of(error.context) + ": " + error.description);
  }
  std::string message;
  for (const std::string& problem : problems) message += (message.empty() ? "" : "; ") + problem;
  throw ConfigError(fmt::format("{}: {}", file, message.empty() ? "does not fit its schema" : message));
}

bool fits_schema(const Json& document, const Json& schema) {
  return validate(document, schema, nullptr);
}

void write_json(const std::filesystem::path& path, const OrderedJson& document) {
  write_file(path, document.dump(2) + "\n");
}

void check_format(const Json& document, std::string_view name, std::int64_t newest, std::string_view file) {
  if (!document.is_object() || document.value("format", "") != name) {
    throw ConfigError(fmt::format("{}: this is not a {} file", file, name));
  }
  const Json version = document.value("version", Json());
  if (!version.is_number_integer() || version.get<std::int64_t>() < 1) {
    throw ConfigError(fmt::format("{}: version: {} is not a format version", file, version.dump()));
  }
  if (version.get<std::int64_t>() > newest) {
    throw ConfigError(fmt::format("{}: format version {}, this program knows up to {}: use a newer Rookery",
                                  file, version.get<std::int64_t>(), newest));
  }
}

}  // namespace rookery
