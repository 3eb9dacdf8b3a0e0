#include "models/io/onnx/format/external.hpp"

#include <system_error>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/io/onnx/format/format.hpp"

namespace rookery {

ExternalData::File& ExternalData::open(const std::string& location) {
  if (const auto found = files_.find(location); found != files_.end()) return found->second;
  const std::filesystem::path name(location);
  if (location.empty() || location.find('\0') != std::string::npos || name.filename() != name ||
      name == "." || name == "..") {
    throw DataError(fmt::format("its data is in {}, which is not a file name in the model's folder",
                                in_quotes(location)));
  }
  std::error_code code;
  const auto folder = std::filesystem::canonical(folder_.empty() ? "." : folder_, code);
  const auto path = std::filesystem::canonical(folder / name, code);
  if (code) throw DataError(fmt::format("its data is in {}: {}", in_quotes(location), code.message()));
  if (path.parent_path() != folder) {
    throw DataError(fmt::format("its data is in {}, a link out of the model's folder", in_quotes(location)));
  }
  const std::uintmax_t bytes = std::filesystem::file_size(path, code);
  if (code) throw DataError(fmt::format("its data is in {}: {}", in_quotes(location), code.message()));
  File file{.stream = std::ifstream(path, std::ios::binary), .bytes = bytes};
  if (!file.stream)
    throw DataError(fmt::format("its data is in {}, which cannot be opened", in_quotes(location)));
  return files_.emplace(location, std::move(file)).first->second;
}

Tensor ExternalData::read(const TensorType& type, const std::string& location, std::uint64_t offset,
                          std::uint64_t length) {
  File& file = open(location);
  if (offset > file.bytes || length > file.bytes - offset) {
    throw DataError(fmt::format("needs {} bytes at {} of {}, the file ends at {}: an incomplete copy?",
                                length, offset, in_quotes(location), file.bytes));
  }
  if (type.bytes() != length) {
    throw DataError(
        fmt::format("{} needs {} bytes, the model gives it {}", type.to_string(), type.bytes(), length));
  }
  const auto next = file.taken.lower_bound(offset);
  if (length > 0 && ((next != file.taken.end() && next->first < offset + length) ||
                     (next != file.taken.begin() && std::prev(next)->second > offset))) {
    throw DataError(fmt::format("its {} bytes at {} of {} belong to another tensor too", length, offset,
                                in_quotes(location)));
  }
  if (length > 0) file.taken.emplace(offset, offset + length);
  Tensor tensor(type);
  file.stream.seekg(static_cast<std::streamoff>(offset));
  if (!file.stream.read(reinterpret_cast<char*>(tensor.view().data), static_cast<std::streamsize>(length))) {
    throw DataError(fmt::format("cannot read {} bytes at {} of {}", length, offset, in_quotes(location)));
  }
  return tensor;
}

}  // namespace rookery
