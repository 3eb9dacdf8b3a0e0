// Tensor data that lies in a file beside an ONNX model ("external data"). Internal to this module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "models/tensor/tensor.hpp"

namespace rookery {

// Reads pieces of the files in one folder. Files outside it, links that lead outside, pieces beyond
// a file's end and pieces that overlap are DataErrors, so that what is read in all is never more
// than what the folder holds.
class ExternalData {
 public:
  explicit ExternalData(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Takes memory for the tensor only after the checks.
  Tensor read(const TensorType& type, const std::string& location, std::uint64_t offset,
              std::uint64_t length);

 private:
  struct File {
    std::ifstream stream;
    std::uint64_t bytes = 0;
    std::map<std::uint64_t, std::uint64_t> taken;  // begin -> end
  };
  File& open(const std::string& location);

  std::filesystem::path folder_;
  std::map<std::string, File> files_;
};

}  // namespace rookery
