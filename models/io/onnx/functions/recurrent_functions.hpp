// The functions that LSTM, GRU and RNN are in our files: their weights have no dimension of directions, and
// may have PyTorch's order of gates. Internal to this module.
#pragma once

#include <string>
#include <vector>

#include "models/io/onnx/functions/functions.hpp"

namespace rookery {

class FunctionBody;

struct RecurrentForm {
  std::string type;
  bool in_torch_order;  // of gates; RNN has one
  bool has_bias;
  bool has_states;
  bool rectifies;  // RNN

  static std::vector<RecurrentForm> all();
  // That of an op.
  static RecurrentForm of(const Op& op);
  std::string name() const;
  OnnxFunction function() const;
  void write(FunctionBody& body) const;
};

}  // namespace rookery
