// Images turned, moved and enlarged.
#pragma once

#include "trainer/data/augment/augment.hpp"

namespace rookery {

// Where a place of the new image comes from in the old one, both in pixels from the middle:
// x = xx x' + xy y' + dx, y = yx x' + yy y' + dy.
struct AffineMap {
  double xx = 1, xy = 0, dx = 0;
  double yx = 0, yy = 1, dy = 0;
};

// Every pixel is interpolated between the four around its place; beyond its edges the image is mirrored.
void apply_affine(const AffineMap& map, Planes& image);

}  // namespace rookery
