// Walks over operands that are repeated to a common shape, or lie at steps of their own. Internal to this
// module.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "models/tensor/tensor.hpp"

namespace rookery {

// Elements of the whole in row-major order, as runs along its last dimension. Neighbouring dimensions
// that every operand walks through alike are one.
template <std::size_t kOperands>
class Broadcasting {
 public:
  using Steps = std::array<std::int64_t, kOperands>;
  static constexpr std::size_t kMaxAxes = 2 * kMaxRank;

  // Operands of which is known how far apart neighbours along each dimension of the whole are.
  Broadcasting(const std::vector<std::int64_t>& whole,
               const std::array<std::vector<std::int64_t>, kOperands>& steps) {
    ROOKERY_CHECK(whole.size() <= kMaxAxes, "{} axes", whole.size());
    dims_.fill(1);
    for (std::size_t axis = whole.size(); axis-- > 0;) {
      Steps step{};
      for (std::size_t i = 0; i < kOperands; ++i) step[i] = steps[i][axis];
      add_outer(whole[axis], step);
    }
  }

  Broadcasting(const Shape& whole, const std::array<Shape, kOperands>& operands) {
    Steps size;  // of an operand, from its last dimension to the present one
    size.fill(1);
    dims_.fill(1);
    for (int axis = whole.rank() - 1; axis >= 0; --axis) {
      Steps step{};
      for (std::size_t i = 0; i < kOperands; ++i) {
        const int own = axis - whole.rank() + operands[i].rank();
        const std::int64_t dim = own < 0 ? 1 : operands[i][own];
        step[i] = dim == 1 ? 0 : size[i];
        size[i] *= dim;
      }
      add_outer(whole[axis], step);
    }
  }

  // The length and the steps of a run.
  std::int64_t length() const { return dims_[0]; }
  const Steps& steps() const { return steps_[0]; }

  // body(offset in the whole, offsets in the operands) for every run.
  template <typename Body>
  void for_runs(Body body) const {
    std::int64_t runs = dims_[0] == 0 ? 0 : 1;
    for (std::size_t axis = 1; axis < dims_.size(); ++axis) runs *= dims_[axis];
    std::array<std::int64_t, kMaxAxes> place{};
    Steps offsets{};
    for (std::int64_t run = 0; run < runs; ++run) {
      body(run * dims_[0], offsets);
      for (std::size_t axis = 1; axis < dims_.size(); ++axis) {
        const bool ends = ++place[axis] == dims_[axis];
        for (std::size_t i = 0; i < kOperands; ++i) {
          offsets[i] += ends ? -steps_[axis][i] * (dims_[axis] - 1) : steps_[axis][i];
        }
        if (!ends) break;
        place[axis] = 0;
      }
    }
  }

 private:
  void add_outer(std::int64_t dim, const Steps& step) {
    if (dim == 1) return;
    if (rank_ > 0) {
      bool alike = true;
      for (std::size_t i = 0; i < kOperands; ++i) {
        alike = alike && step[i] == steps_[rank_ - 1][i] * dims_[rank_ - 1];
      }
      if (alike) {
        dims_[rank_ - 1] *= dim;
        return;
      }
    }
    dims_[rank_] = dim;
    steps_[rank_] = step;
    ++rank_;
  }

  std::size_t rank_ = 0;
  std::array<std::int64_t, kMaxAxes> dims_{};  // the innermost first
  std::array<Steps, kMaxAxes> steps_{};
};

}  // namespace rookery
