#include "models/io/onnx/import/needed.hpp"

#include <onnx/onnx_pb.h>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

// Every name that a node reads, those in its branches included.
template <typename Visit>
void for_each_read(const onnx::NodeProto& node, const Visit& visit) {
  for (const std::string& input : node.input()) {
    if (!input.empty()) visit(input);
  }
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.type() != onnx::AttributeProto::GRAPH) continue;
    for (const onnx::NodeProto& inner : attribute.g().node()) for_each_read(inner, visit);
    for (const onnx::ValueInfoProto& output : attribute.g().output()) visit(output.name());
  }
}

}  // namespace

NeededNames::NeededNames(const onnx::GraphProto& graph) {
  std::map<std::string, const onnx::NodeProto*> producers;
  for (const onnx::NodeProto& node : graph.node()) {
    for (const std::string& output : node.output()) {
      if (!output.empty() && !producers.emplace(output, &node).second)
        throw DataError(fmt::format("two nodes make {}", in_quotes(output)));
    }
  }
  std::vector<std::string> open;
  const auto need = [&](const std::string& name) {
    if (names_.insert(name).second) open.push_back(name);
  };
  for (const onnx::ValueInfoProto& output : graph.output()) need(output.name());
  std::set<const onnx::NodeProto*> seen;
  while (!open.empty()) {
    const auto producer = producers.find(open.back());
    open.pop_back();
    if (producer == producers.end() || !seen.insert(producer->second).second) continue;
    for_each_read(*producer->second, need);
    for (const std::string& input : producer->second->input()) readers_[input].push_back(producer->second);
  }
}

const std::vector<const onnx::NodeProto*>& NeededNames::readers(const std::string& name) const {
  static const std::vector<const onnx::NodeProto*> none;
  const auto found = readers_.find(name);
  return found == readers_.end() ? none : found->second;
}

}  // namespace rookery
