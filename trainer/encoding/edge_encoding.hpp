// How the values of a pipeline's edges and their gradients travel from stage to stage.
//
// An encoded tensor is u8[n] on its way, n a function of its shape alone, but for a sample's first time where
// it travels by its difference from the last (reconstructions.hpp). As it is travels what is not f32 (token
// ids, labels, masks), what the Root hands on from the data set, and what encoding would not make smaller; so
// does what belongs to no micro-batch.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "models/graph/graph.hpp"
#include "trainer/settings/compression.hpp"
#include "trainer/settings/transport.hpp"

namespace rookery {

// From one stage to another; {} where it is not known which they are.
struct Hop {
  int from = -1;
  int to = -1;
};

// Copies are the same; may be read by several threads.
class EdgeEncoding {
 public:
  EdgeEncoding() = default;  // everything as it is
  // On all links; "auto" as "none". `data`: input_names() of the whole model. `samples`: that train.
  EdgeEncoding(TransportSettings settings, std::set<std::string> data, std::int64_t samples = 0);
  // On the link of these two stages, in its place.
  void set(Hop link, TransportSettings transport);

  const TransportSettings& on(Hop link) const;
  bool is_lossy() const;
  // Whether anything travels by its difference from the last.
  bool has_deltas() const;
  std::int64_t samples() const { return samples_; }

  // Whether a value with a row for each sample does, each row by itself: where differences are fewer bytes
  // than what is first_of_deltas().
  bool is_delta(Hop hop, const std::string& value, const TensorType& type) const;
  // How travels what there is no difference of: a sample's first time, validation.
  EdgeEncoding first_of_deltas() const;

  // By what a tensor of this type is encoded, or its difference: nothing where it travels as it is.
  Compression of_activation(Hop hop, const std::string& value, const TensorType& type) const;
  Compression of_gradient(Hop hop, const TensorType& type) const;
  // Whether what encoding loses of such a gradient is added to that of the next micro-batch.
  bool feeds_back(Hop hop, const TensorType& type) const;

  // Its type on its way, where is_delta() every time but the first; and the largest that it may have.
  TensorType activation_type(Hop hop, const std::string& value, const TensorType& type) const;
  TensorType largest_activation_type(Hop hop, const std::string& value, const TensorType& type) const;
  TensorType gradient_type(Hop hop, const TensorType& type) const;

 private:
  TransportSettings all_;
  std::map<std::pair<int, int>, TransportSettings> links_;  // by stages, the earlier one first
  std::set<std::string> data_;
  std::int64_t samples_ = 0;
};

// The names of a model's inputs, targets of its losses included.
std::set<std::string> input_names(const Graph& model);

}  // namespace rookery
