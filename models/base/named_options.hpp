// "NAME?key=value&key=value": a thing by its name with options, as train.json gives models and data sets.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rookery {

// Every error is a ConfigError that names the option, its value and what it may be. Whoever builds the thing
// asks for all options that it knows; what nobody asked for is then an error.
class NamedOptions {
 public:
  // Takes what follows the last '?' for options.
  explicit NamedOptions(std::string_view text);

  const std::string& name() const { return name_; }
  bool has(const std::string& key) const { return given_.contains(key); }

  // The option `key`, or `otherwise` where it is absent.
  std::int64_t integer(const std::string& key, std::int64_t otherwise, std::int64_t least, std::int64_t most);
  double number(const std::string& key, double otherwise, double least, double most);
  std::string choice(const std::string& key, const std::string& otherwise,
                     std::span<const std::string> choices);

  // Names an option that was given and never asked for.
  void expect_none_left() const;

  // The options that were asked for, in order: "image_size=224", with the values that hold.
  const std::vector<std::string>& asked() const { return asked_; }

 private:
  // The text of an option; nullptr where it is absent.
  const std::string* find(const std::string& key) const;
  void note(const std::string& key, const std::string& value);

  std::string name_;
  std::map<std::string, std::string> given_;
  std::vector<std::string> asked_;
  std::vector<std::string> known_;  // their keys
};

}  // namespace rookery
