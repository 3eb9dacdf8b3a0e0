// Problems gather what is wrong with a file that a person wrote, so that it is mended in one go.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/files/json_file.hpp"

namespace rookery {

class Problems {
 public:
  // `place`: of the value in the user's file, "0/benchmarks/ram".
  void add(std::string_view place, std::string_view text);
  // "PLACE: there is no such key; did you mean 'ram'?", or which keys there are where none is near.
  void add_unknown_key(std::string_view place, const std::string& key, std::span<const std::string> known);

  bool empty() const { return problems_.empty(); }
  // ConfigError "FILE: PLACE: TEXT; PLACE: TEXT", the first ten of them and how many there are.
  void throw_if_any(std::string_view file) const;

 private:
  std::vector<std::string> problems_;
};

// A value as it stands in the file, shortened where it is long.
std::string shown(const Json& value);

}  // namespace rookery
