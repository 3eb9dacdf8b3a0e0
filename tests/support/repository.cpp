#include "tests/support/repository.hpp"

namespace rookery {

std::filesystem::path repository_folder() {
  return ROOKERY_SOURCE_DIR;
}
std::filesystem::path programs_folder() {
  return ROOKERY_BIN_DIR;
}

}  // namespace rookery
