// cereal archives over plain memory for packet headers. The input archive trusts no size: every
// length is checked against the bytes that are left before any memory is taken, so that a hostile
// header costs no more than its own few bytes.
//
// Encoding: little-endian integers and IEEE floats of their own width, bool as one byte 0 or 1,
// strings and lists as a 32-bit count and their elements.
#pragma once

#include <bit>
#include <cereal/cereal.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "models/base/error.hpp"

namespace rookery {

static_assert(std::endian::native == std::endian::little, "packets are little-endian");

template <typename T>
concept WireNumber = std::is_arithmetic_v<T> && !std::same_as<T, bool>;

class WireInput : public cereal::InputArchive<WireInput, cereal::AllowEmptyClassElision> {
 public:
  // Borrows `bytes`.
  explicit WireInput(std::span<const std::byte> bytes)
      : cereal::InputArchive<WireInput, cereal::AllowEmptyClassElision>(this), left_(bytes) {}

  // TransportError when fewer than `size` bytes are left.
  void read(void* into, std::size_t size) {
    if (size > left_.size()) throw TransportError("the header is cut short");
    if (size != 0) std::memcpy(into, left_.data(), size);
    left_ = left_.subspan(size);
  }
  std::size_t left() const { return left_.size(); }

 private:
  std::span<const std::byte> left_;
};

class WireOutput : public cereal::OutputArchive<WireOutput, cereal::AllowEmptyClassElision> {
 public:
  // Appends to `bytes`, which outlives the archive.
  explicit WireOutput(std::vector<std::byte>& bytes)
      : cereal::OutputArchive<WireOutput, cereal::AllowEmptyClassElision>(this), bytes_(bytes) {}

  void write(const void* from, std::size_t size) {
    const auto* begin = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), begin, begin + size);
  }

 private:
  std::vector<std::byte>& bytes_;
};

template <WireNumber T>
void CEREAL_LOAD_FUNCTION_NAME(WireInput& archive, T& value) {
  archive.read(&value, sizeof value);
}

template <WireNumber T>
void CEREAL_SAVE_FUNCTION_NAME(WireOutput& archive, const T& value) {
  archive.write(&value, sizeof value);
}

template <std::same_as<bool> T>
void CEREAL_LOAD_FUNCTION_NAME(WireInput& archive, T& value) {
  std::uint8_t byte = 0;
  archive.read(&byte, 1);
  if (byte > 1) throw TransportError("the header has a truth value that is neither 0 nor 1");
  value = byte != 0;
}

template <std::same_as<bool> T>
void CEREAL_SAVE_FUNCTION_NAME(WireOutput& archive, const T& value) {
  const std::uint8_t byte = value ? 1 : 0;
  archive.write(&byte, 1);
}

template <typename T>
void CEREAL_LOAD_FUNCTION_NAME(WireInput& archive, cereal::SizeTag<T>& tag) {
  std::uint32_t size = 0;
  archive.read(&size, sizeof size);
  // An element takes at least one byte.
  if (size > archive.left()) throw TransportError("the header has a length beyond its end");
  tag.size = size;
}

template <typename T>
void CEREAL_SAVE_FUNCTION_NAME(WireOutput& archive, const cereal::SizeTag<T>& tag) {
  const auto size = static_cast<std::uint32_t>(tag.size);
  archive.write(&size, sizeof size);
}

template <typename T>
void CEREAL_LOAD_FUNCTION_NAME(WireInput& archive, cereal::BinaryData<T>& data) {
  archive.read(data.data, static_cast<std::size_t>(data.size));
}

template <typename T>
void CEREAL_SAVE_FUNCTION_NAME(WireOutput& archive, const cereal::BinaryData<T>& data) {
  archive.write(data.data, static_cast<std::size_t>(data.size));
}

}  // namespace rookery

CEREAL_REGISTER_ARCHIVE(rookery::WireInput)
CEREAL_REGISTER_ARCHIVE(rookery::WireOutput)
CEREAL_SETUP_ARCHIVE_TRAITS(rookery::WireInput, rookery::WireOutput)
