// The part of a foreign file that its outputs need. Internal to this module.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace rookery {

// The names that the outputs of a graph need, those that branches read included, and the needed nodes that
// read them. The graph must outlive it.
class NeededNames {
 public:
  // DataError where two nodes make one name.
  explicit NeededNames(const onnx::GraphProto& graph);

  bool contains(const std::string& name) const { return names_.contains(name); }
  // The nodes that have it among their inputs, in no particular order.
  const std::vector<const onnx::NodeProto*>& readers(const std::string& name) const;

 private:
  std::set<std::string> names_;
  std::map<std::string, std::vector<const onnx::NodeProto*>> readers_;
};

}  // namespace rookery
