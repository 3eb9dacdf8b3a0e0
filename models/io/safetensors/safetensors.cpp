#include "models/io/safetensors/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/files/json_file.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"

namespace rookery {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // the limit of the official readers
constexpr int kHeaderDepth = 3;                          // file, tensor, list of numbers
constexpr const char* kMetadataKey = "__metadata__";
constexpr const char* kVersionKey = "rookery_format";
constexpr int kNewestVersion = 1;

constexpr std::array<std::pair<const char*, DType>, kDTypes> kDTypeNames{{{"F32", DType::kF32},
                                                                          {"F64", DType::kF64},
                                                                          {"I64", DType::kI64},
                                                                          {"I32", DType::kI32},
                                                                          {"U8", DType::kU8},
                                                                          {"BOOL", DType::kBool}}};

const char* dtype_name(DType type) {
  return std::ranges::find(kDTypeNames, type, [](const auto& entry) { return entry.second; })->first;
}

DType dtype_from(const std::string& name) {
  const auto* found =
      std::ranges::find_if(kDTypeNames, [&](const auto& entry) { return name == entry.first; });
  if (found == kDTypeNames.end()) {
    throw DataError(fmt::format("dtype {} is not supported: convert it to F32", Json(name).dump()));
  }
  return found->second;
}

struct Entry {
  TensorType type;
  std::uint64_t begin = 0;  // within the data
  std::uint64_t end = 0;
};

struct Header {
  std::map<std::string, Entry> entries;
  Metadata metadata;
  std::uint64_t data_begin = 0;  // within the file
};

// Keeps a hostile header small in memory, and refuses keys given twice, which the parser lets pass.
class HeaderGuard {
 public:
  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start && depth >= kHeaderDepth - 1) {
      throw DataError("its header is nested too deeply");
    }
    if (event == Event::array_start) {
      if (depth != kHeaderDepth - 1) throw DataError("its header has a list where none belongs");
      list_length_ = 0;
    }
    if (event == Event::value && depth == kHeaderDepth && ++list_length_ > kMaxRank) {
      throw DataError(fmt::format("a tensor of more than {} dimensions", kMaxRank));
    }
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key && !keys_.back().insert(parsed.get<std::string>()).second) {
      throw DataError(fmt::format("its header has {} twice", parsed.dump()));
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> keys_;
  int list_length_ = 0;
};

Json parse_header(const std::string& text) {
  if (text.front() != '{') throw DataError("its header is not a JSON object");
  // Which the parser takes for the end.
  if (text.find('\0') != std::string::npos)
    throw DataError("its header has a zero byte, which JSON does not know");
  HeaderGuard guard;
  try {
    return Json::parse(text, std::ref(guard));
  } catch (const Json::exception& error) {
    const std::string message = error.what();  // "[json.exception.parse_error.101] parse error at …"
    throw DataError("its header is not JSON: " + message.substr(message.find("] ") + 2));
  }
}

Metadata metadata_from(const Json& object) {
  if (!object.is_object()) throw DataError("__metadata__ is not an object");
  Metadata metadata;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string()) throw DataError(fmt::format("__metadata__: {} is not text", Json(key).dump()));
    metadata.emplace(key, value.get<std::string>());
  }
  const auto version = metadata.extract(kVersionKey);
  if (!version.empty() && version.mapped() != std::to_string(kNewestVersion)) {
    throw DataError(fmt::format("format version {}, this program knows up to {}: use a newer Rookery",
                                Json(version.mapped()).dump(), kNewestVersion));
  }
  return metadata;
}

std::vector<std::uint64_t> numbers_from(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) throw DataError(fmt::format("has no list '{}'", key));
  std::vector<std::uint64_t> numbers;
  for (const Json& number : *found) {
    if (!number.is_number_unsigned()) {
      throw DataError(fmt::format("{}: {} is not a whole number from 0 up", key, number.dump()));
    }
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

Entry entry_from(const Json& object, std::uint64_t data_bytes) {
  if (!object.is_object() || object.size() != 3 || !object.contains("dtype") ||
      !object["dtype"].is_string()) {
    throw DataError("is not described by dtype, shape and data_offsets");
  }
  std::vector<std::int64_t> dims;
  for (const std::uint64_t dim : numbers_from(object, "shape")) {
    if (!std::in_range<std::int64_t>(dim)) throw DataError(fmt::format("a dimension of {}", dim));
    dims.push_back(static_cast<std::int64_t>(dim));
  }
  const std::vector<std::uint64_t> offsets = numbers_from(object, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    throw DataError(fmt::format("data_offsets {} are not begin and end", object["data_offsets"].dump()));
  }
  const Entry entry{{dtype_from(object["dtype"].get<std::string>()), Shape(dims)}, offsets[0], offsets[1]};
  if (entry.end > data_bytes) {
    throw DataError(fmt::format("needs bytes {} to {} of the data, the file has {}: an incomplete copy?",
                                entry.begin, entry.end, data_bytes));
  }
  if (entry.end - entry.begin != entry.type.bytes()) {
    throw DataError(fmt::format("{} needs {} bytes, its data_offsets hold {}", entry.type.to_string(),
                                entry.type.bytes(), entry.end - entry.begin));
  }
  return entry;
}

// The format wants the data to be covered once, without holes.
void check_cover(const std::map<std::string, Entry>& entries, std::uint64_t data_bytes) {
  std::vector<std::pair<const std::string*, const Entry*>> order;
  for (const auto& [name, entry] : entries) order.emplace_back(&name, &entry);
  std::ranges::sort(order, {},
                    [](const auto& item) { return std::pair(item.second->begin, item.second->end); });
  std::uint64_t end = 0;
  for (const auto& [name, entry] : order) {
    if (entry->begin != end) {
      throw DataError(fmt::format(
          "tensor {} begins at byte {} of the data, {} byte {}", Json(*name).dump(), entry->begin,
          entry->begin < end ? "which overlaps the one before it up to" : "which leaves a hole from", end));
    }
    end = entry->end;
  }
  if (end != data_bytes) {
    throw DataError(
        fmt::format("{} bytes follow the last tensor, which ends at byte {}", data_bytes - end, end));
  }
}

Header read_header(std::istream& stream, std::uint64_t file_bytes) {
  std::array<char, kLengthBytes> raw{};
  if (!stream.read(raw.data(), kLengthBytes)) {
    throw DataError(fmt::format("{} bytes, too short for a safetensors file", file_bytes));
  }
  const auto length = std::bit_cast<std::uint64_t>(raw);
  if (length < 2 || length > kMostHeaderBytes || length > file_bytes - kLengthBytes) {
    throw DataError(fmt::format("its header claims {} bytes in a file of {} (at most {} are allowed)", length,
                                file_bytes, kMostHeaderBytes));
  }
  std::string text(length, '\0');
  if (!stream.read(text.data(), static_cast<std::streamsize>(length)))
    throw DataError("cannot read its header");
  const Json json = parse_header(text);
  Header header{.data_begin = kLengthBytes + length};
  const std::uint64_t data_bytes = file_bytes - header.data_begin;
  for (auto item = json.begin(); item != json.end(); ++item) {
    if (item.key() == kMetadataKey) {
      header.metadata = metadata_from(*item);
      continue;
    }
    header.entries.emplace(item.key(), with_context("tensor " + Json(item.key()).dump(),
                                                    [&] { return entry_from(*item, data_bytes); }));
  }
  check_cover(header.entries, data_bytes);
  return header;
}

std::string header_text(const std::vector<const StateViews::value_type*>& order, const Metadata& metadata) {
  OrderedJson header;
  header[kMetadataKey] = metadata;
  header[kMetadataKey][kVersionKey] = std::to_string(kNewestVersion);
  std::uint64_t offset = 0;
  for (const auto* item : order) {
    const TensorType& type = item->second.type;
    const std::uint64_t end = offset + type.bytes();
    const auto dims = type.shape.dims();
    if (item->first == kMetadataKey) throw DataError("no tensor can be called __metadata__");
    header[item->first] = {{"dtype", dtype_name(type.dtype)},
                           {"shape", std::vector<std::int64_t>(dims.begin(), dims.end())},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const OrderedJson::exception&) {
    throw DataError("a tensor's name or the metadata is not UTF-8");
  }
  text.resize(align_up(kLengthBytes + text.size()) - kLengthBytes, ' ');
  return text;
}

// Wide elements first, then by name.
std::vector<const StateViews::value_type*> order_of(const StateViews& tensors) {
  std::vector<const StateViews::value_type*> order;
  for (const auto& item : tensors) order.push_back(&item);
  std::ranges::stable_sort(order, std::greater{},
                           [](const auto* item) { return bytes_of(item->second.type.dtype); });
  return order;
}

void write_parts(AtomicFile& file, const std::string& header,
                 const std::vector<const StateViews::value_type*>& order) {
  const auto length = std::bit_cast<std::array<std::byte, kLengthBytes>>(std::uint64_t{header.size()});
  file.write(length);
  file.write(header);
  for (const auto* item : order) file.write(item->second.bytes());
  file.commit();
}

}  // namespace

SafetensorsReader::SafetensorsReader(std::filesystem::path path) : path_(std::move(path)) {
  with_context(path_.string(), [&] {
    std::error_code code;
    const std::uintmax_t bytes = std::filesystem::file_size(path_, code);
    if (code) throw DataError("cannot read: " + code.message());
    stream_.open(path_, std::ios::binary);
    if (!stream_) throw DataError("cannot open for reading");
    Header header = read_header(stream_, bytes);
    metadata_ = std::move(header.metadata);
    for (const auto& [name, entry] : header.entries) {
      extents_[name] = {.offset = header.data_begin + entry.begin, .bytes = entry.end - entry.begin};
      types_.emplace(name, entry.type);
    }
  });
}

Tensor SafetensorsReader::read(const std::string& name) {
  Tensor tensor(types_.at(name));
  read(name, tensor.view().bytes());
  return tensor;
}

void SafetensorsReader::read(const std::string& name, std::span<std::byte> into, const OnBlock& on_block) {
  constexpr std::size_t kBlockBytes = 1U << 18;
  with_context(path_.string(), [&] {
    stream_.seekg(static_cast<std::streamoff>(extents_.at(name).offset));
    for (std::size_t at = 0; at < into.size(); at += kBlockBytes) {
      const auto block = into.subspan(at, std::min(kBlockBytes, into.size() - at));
      if (!stream_.read(reinterpret_cast<char*>(block.data()), static_cast<std::streamsize>(block.size())))
        throw DataError(fmt::format("cannot read tensor {}", Json(name).dump()));
      if (on_block) on_block(block);
    }
    const auto is_bool = [](std::byte byte) { return byte <= std::byte{1}; };
    if (types_.at(name).dtype == DType::kBool && !std::ranges::all_of(into, is_bool))
      throw DataError(fmt::format("tensor {}: a BOOL that is neither 0 nor 1", Json(name).dump()));
  });
}

SafetensorsFile read_safetensors(const std::filesystem::path& path) {
  SafetensorsReader reader(path);
  SafetensorsFile file{.metadata = reader.metadata()};
  for (const auto& [name, type] : reader.types()) file.tensors.emplace(name, reader.read(name));
  return file;
}

Metadata safetensors_metadata(const std::filesystem::path& path) {
  return SafetensorsReader(path).metadata();
}

void write_safetensors(const std::filesystem::path& path, const StateDict& tensors,
                       const Metadata& metadata) {
  write_safetensors(path, views_of(tensors), metadata);
}

void write_safetensors(const std::filesystem::path& path, const StateViews& tensors,
                       const Metadata& metadata) {
  const std::vector<const StateViews::value_type*> order = order_of(tensors);
  const std::string header = with_context(path.string(), [&] { return header_text(order, metadata); });
  AtomicFile file(path);
  write_parts(file, header, order);
}

void write_safetensors(AtomicFile& file, const StateViews& tensors, const Metadata& metadata) {
  const std::vector<const StateViews::value_type*> order = order_of(tensors);
  write_parts(file, with_context(file.path().string(), [&] { return header_text(order, metadata); }), order);
}

std::uint64_t safetensors_bytes(const StateViews& tensors, const Metadata& metadata) {
  std::uint64_t bytes = kLengthBytes + header_text(order_of(tensors), metadata).size();
  for (const auto& [name, tensor] : tensors) bytes += tensor.type.bytes();
  return bytes;
}

}  // namespace rookery
