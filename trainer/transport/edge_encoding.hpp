// How the values of a pipeline's edges and their gradients travel from stage to stage.
//
// An encoded tensor is u8[n] on its way, n a function of its shape alone. As it is travels what is not f32
// (token ids, labels, masks), what the Root hands on from the data set, and what encoding would not make
// smaller; so does what belongs to no micro-batch.
#pragma once

#include <set>
#include <string>

#include "models/graph/graph.hpp"
#include "trainer/settings/compression.hpp"
#include "trainer/settings/transport.hpp"

namespace rookery {

// Copies are the same; may be read by several threads.
class EdgeEncoding {
 public:
  EdgeEncoding() = default;  // everything as it is
  // `data`: input_names() of the whole model. ConfigError for what names no encoding.
  EdgeEncoding(const TransportSettings& settings, std::set<std::string> data);

  bool is_lossy() const { return activations_.is_lossy() || gradients_.is_lossy(); }

  // By what a tensor of this type is encoded: nothing where it travels as it is.
  Compression of_activation(const std::string& value, const TensorType& type) const;
  Compression of_gradient(const TensorType& type) const;

  // Whether what encoding loses of such a gradient is added to that of the next micro-batch.
  bool feeds_back(const TensorType& type) const;

  // Its type on its way.
  TensorType activation_type(const std::string& value, const TensorType& type) const;
  TensorType gradient_type(const TensorType& type) const;

 private:
  Compression activations_;
  Compression gradients_;
  std::set<std::string> data_;
};

// The names of a model's inputs, targets of its losses included.
std::set<std::string> input_names(const Graph& model);

}  // namespace rookery
