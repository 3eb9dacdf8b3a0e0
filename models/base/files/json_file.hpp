// JSON files: parsed with a place in every error, checked against a JSON Schema, written whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace rookery {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// Reads at most 64 MiB, at most 64 levels deep. ConfigError with line and column when it is not
// JSON or an object has a key twice.
Json read_json(const std::filesystem::path& path);

// ConfigError "FILE: members/1/stage: …" listing every place where `document` breaks `schema`
// (JSON Schema draft 7).
void validate_json(const Json& document, const Json& schema, std::string_view file);
// Is there no such place?
bool fits_schema(const Json& document, const Json& schema);

// Writes indented, atomically.
void write_json(const std::filesystem::path& path, const OrderedJson& document);

// Checks {"format": NAME, "version": N}: ConfigError naming both versions when the file is newer
// than `newest` or is another kind of file.
void check_format(const Json& document, std::string_view name, std::int64_t newest, std::string_view file);

}  // namespace rookery
