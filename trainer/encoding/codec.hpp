// Numbers as they travel, in fewer bytes than they have in memory: those of a round from cluster to cluster,
// and those of an edge from stage to stage (compressed_link.hpp).
//
// Numbers are encoded in blocks, each by itself. A decoded number is a function of the bytes alone, the same
// bits on every machine. Values that are no numbers make all of their block so (kInt8, kInt4), or stay.
//   kFloat16, kBFloat16  rounded to nearest, what is too large to the largest there is; NaN stays
//   kInt8, kInt4         per block of 256 or 128 a scale, its largest magnitude / 127 or / 7, and multiples
//                        of it from -127 to 127 or -7 to 7, rounded to nearest, ties to even
//   kTopK                the numbers with the largest magnitude, with their places; all others are 0. With 8
//                        bits a value as kInt8 has them, with 2 bits two magnitudes and a sign (as in
//                        SparseLoCo, arXiv 2508.15706)
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

#include "trainer/settings/compression.hpp"

namespace rookery {

// Belongs to one thread.
class Codec {
 public:
  virtual ~Codec() = default;

  // Numbers that are encoded together; the last block of what is encoded may have fewer.
  virtual std::size_t block() const = 0;
  // The bytes of a block of `numbers`: a function of their number alone.
  virtual std::size_t block_bytes(std::size_t numbers) const = 0;
  virtual void encode(std::span<const float> block, std::byte* bytes) = 0;
  virtual void decode(const std::byte* bytes, std::span<float> block) const = 0;

  // The bytes of `numbers` in a row.
  std::size_t bytes(std::size_t numbers) const {
    const std::size_t rest = numbers % block();
    return numbers / block() * block_bytes(block()) + (rest > 0 ? block_bytes(rest) : 0);
  }
};

// Calls work(a block's numbers, its bytes) for all blocks.
template <typename Number, typename Byte, typename Work>
void for_each_block(const Codec& codec, std::span<Number> numbers, Byte* bytes, Work work) {
  for (std::size_t begin = 0; begin < numbers.size(); begin += codec.block()) {
    const std::size_t count = std::min(codec.block(), numbers.size() - begin);
    work(numbers.subspan(begin, count), bytes);
    bytes += codec.block_bytes(count);
  }
}

// Null where numbers travel as they are.
std::unique_ptr<Codec> make_codec(const Compression& compression);

}  // namespace rookery
