// Reads what a foreign file says of the PyTorch module that it was exported from. Internal to this module.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/io/onnx/exporters/torch.hpp"
#include "models/io/onnx/import/operators/node.hpp"
#include "models/io/onnx/module.hpp"

namespace rookery {

// The module's tensors and the modes of its layers: as the description of rookery_export.py has them, or else
// as far as PyTorch's exporter says. The graph must outlive it.
class ExportedModule {
 public:
  ExportedModule(const onnx::GraphProto& graph, std::optional<ModuleDescription> description);

  const std::optional<ModuleDescription>& description() const { return description_; }

  // Whether the module that the description is of has a parameter or a persistent buffer of this name.
  bool describes(const std::string& name) const;
  // Whether the module may have a tensor of this name, as far as something says which it has.
  bool may_have(const std::string& name) const;
  // Names of tensors that forward changes, as the exporter says, and the file does not: others than the
  // running statistics of its BatchNorm.
  std::vector<std::string> lost_moves() const;
  // Whether it is a buffer that is not in the state dict, of which the exporter says so.
  bool is_transient(const std::string& name) const;
  // Whether this weight is trained. All are of which nothing else is said.
  bool is_trained(const std::string& name) const;
  // Names of its buffers, as far as they are known to be some.
  std::set<std::string> buffer_names() const;
  // Names of its state dict, as far as they are known to be some.
  std::set<std::string> state_names() const;

  // Whether each BatchNorm stays in the mode that it has in the file. Where some are in training and some
  // not, that is how the module was; where none is, the module was exported for inference, and trains all the
  // same.
  bool keeps_modes() const;
  // Is this the name of a counter, the number of batches that a BatchNorm has seen? Only a description says.
  bool is_counter(const std::string& name) const;

  // Says what a file without a description leaves open, for people. `aliases`: weights that began equal to
  // others; `found_names`: that had lost their names.
  std::vector<std::string> warnings(const OnnxModel& model, const std::vector<std::string>& aliases,
                                    const std::vector<std::string>& found_names) const;

 private:
  std::optional<ModuleDescription> description_;
  TorchSignature signature_;             // of files of PyTorch's newer exporter that have one
  std::map<std::string, bool> buffers_;  // by it: are they persistent?
  std::vector<std::string> in_training_, in_evaluation_;  // nodes of BatchNorm
  std::vector<std::string> changed_;                      // by forward, as the signature says
  std::set<std::string> norms_;                           // modules of BatchNorm: "body.1"
};

// Gives an imported node what the operation of PyTorch that the node stands for is more than the node: the
// mode of a BatchNorm, the padding of an embedding, detach.
void take_operation(const onnx::NodeProto& node, ImportedNode& imported);

}  // namespace rookery
