// What is said where something must fail.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "models/base/error.hpp"

namespace rookery {

// The message of the error of this kind that `action` throws; "none" where it throws none. One of another
// kind is told as such, so that no message is taken for it.
template <typename Kind = Error, typename Action>
std::string problem(Action&& action) {
  try {
    std::forward<Action>(action)();
  } catch (const Kind& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("of another kind: ") + error.what();
  }
  return "none";
}

}  // namespace rookery
