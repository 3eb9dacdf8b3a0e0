// Resizes images as Pillow's `resize((width, height), Image.BILINEAR)` does, to the same bits: each new pixel
// is the mean of those that it covers, weighted by their distance, so that fine patterns do not become coarse
// ones.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/images/image.hpp"

namespace rookery {

// A part of an image, in pixels, of which there may be fractions.
struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
};

// The weights of one direction: of every new pixel those of a run of old ones, which add up to one.
struct ResizeWeights {
  std::int64_t taps = 0;            // room for each new pixel, an even number; beyond `count` they are 0
  std::vector<std::int64_t> first;  // of the run
  std::vector<std::int64_t> count;  // in it
  std::vector<double> values;

  // The part from `begin` to `end` of `old_size` pixels becomes `new_size`.
  void set(std::int64_t old_size, double begin, double end, std::int64_t new_size);
};

// Keeps the room that it needs from one image to the next. One thread.
class Resizer {
 public:
  // `to` gets its size and channels; the part `box` of `from` becomes all of it.
  void resize(const Image& from, const Box& box, ImageSize size, Image& to);
  void resize(const Image& from, ImageSize size, Image& to);

 private:
  void rows(const Image& from, Image& to);
  void columns(const Image& from, Image& to);

  ResizeWeights weights_;
  std::vector<std::int32_t> fixed_;  // the same in 2^-22
  std::vector<std::uint8_t> last_row_;
  Image between_;
};

}  // namespace rookery
