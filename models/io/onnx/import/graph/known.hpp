// Values that a file computes without the samples: constants, and what follows from the shape of a value, as
// in Shape, Gather, Concat, Reshape. The batch size is open, so that everything is computed at a few sizes
// ("probes"): what is the same at all of them does not depend on the batch. Internal to this module.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/graph/graph.hpp"

namespace rookery {

constexpr std::size_t kProbes = 3;
template <typename T>
using AtProbes = std::array<T, kProbes>;

// A tensor at every probe; shared where it is the same.
class Known {
 public:
  explicit Known(Tensor tensor) { at_.fill(std::make_shared<const Tensor>(std::move(tensor))); }
  explicit Known(AtProbes<std::shared_ptr<const Tensor>> at);

  const Tensor& at(std::size_t probe) const { return *at_.at(probe); }
  bool is_constant() const { return at_.front() == at_.back(); }
  // The tensor of all probes, of a constant.
  std::shared_ptr<const Tensor> constant() const { return at_.front(); }

 private:
  AtProbes<std::shared_ptr<const Tensor>> at_;
};

// Runs ops on known tensors with the reference kernels; also some operators that graphs do not have.
class Folder {
 public:
  // The tensors that the op makes of these (nullptr: absent), `outputs` of them. ConfigError or DataError as
  // from op_definition() and kernels; DataError for too much memory in one tensor or in all.
  std::vector<Tensor> run(const Op& op, std::span<const Tensor* const> inputs, std::size_t outputs);
  // Whether only folding knows an operator (Floor, Mod, Range, …).
  static bool has_own(const std::string& type);
  // The result of such an operator, for which `attribute` gives its whole numbers, or what is given instead;
  // nothing for others.
  using Integer = std::function<std::int64_t(const std::string& attribute, std::int64_t otherwise)>;
  std::optional<Tensor> run_own(const std::string& type, std::span<const Tensor* const> inputs,
                                const Integer& attribute);

 private:
  void take(const TensorType& type);

  std::uint64_t taken_ = 0;
};

}  // namespace rookery
