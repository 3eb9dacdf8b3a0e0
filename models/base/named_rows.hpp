// Tables of what can be extended (models, losses, optimizers, …): a row for each, which has a `name`.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace rookery {

// The row with this name; nullptr when there is none.
template <typename Row>
const Row* find_row(const std::vector<Row>& rows, std::string_view name) {
  const auto found = std::ranges::find(rows, name, &Row::name);
  return found == rows.end() ? nullptr : &*found;
}

// All names, in the order of the rows.
template <typename Row>
std::vector<std::string> names_of(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) names.push_back(row.name);
  return names;
}

}  // namespace rookery
