#include "node/sparkline.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace rookery {
namespace {

constexpr std::size_t kMostMeans = 256;
constexpr std::array<const char*, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

}  // namespace

void Sparkline::add(double value) {
  if (!std::isfinite(value)) return;
  first_ = first_.value_or(value);
  last_ = value;
  sum_ += value;
  if (++summed_ < together_) return;
  means_.push_back(sum_ / static_cast<double>(summed_));
  sum_ = 0;
  summed_ = 0;
  if (means_.size() < kMostMeans) return;
  for (std::size_t i = 0; i < kMostMeans / 2; ++i) means_[i] = (means_[2 * i] + means_[2 * i + 1]) / 2;
  means_.resize(kMostMeans / 2);
  together_ *= 2;
}

// The means, joined to as many as there are columns.
std::vector<double> Sparkline::levels(std::size_t columns) const {
  std::vector<double> all = means_;
  if (summed_ > 0) all.push_back(sum_ / static_cast<double>(summed_));
  if (all.size() <= columns) return all;
  std::vector<double> joined;
  for (std::size_t column = 0; column < columns; ++column) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(column * all.size() / columns);
    const auto end = all.begin() + static_cast<std::ptrdiff_t>((column + 1) * all.size() / columns);
    joined.push_back(std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin));
  }
  return joined;
}

std::string Sparkline::text(std::size_t columns) const {
  const std::vector<double> drawn = levels(columns);
  if (drawn.empty()) return "";
  const auto [low, high] = std::ranges::minmax(drawn);
  std::string text;
  for (const double level : drawn) {
    const double height = high > low ? (level - low) / (high - low) : 0;
    text += kBlocks.at(static_cast<std::size_t>(std::lround(height * (kBlocks.size() - 1))));
  }
  return text;
}

}  // namespace rookery
