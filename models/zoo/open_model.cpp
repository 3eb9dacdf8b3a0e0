#include "models/zoo/open_model.hpp"

#include "models/graph/recognize.hpp"
#include "models/io/onnx.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {
namespace {

bool is_file(const std::string& name) {
  return name.ends_with(".onnx");
}

}  // namespace

OpenedModel open_model(const std::string& name, const std::filesystem::path& node_data) {
  if (!is_file(name)) return {.graph = zoo_model(name), .weights = {}};
  OnnxModel model = import_onnx(node_data / name);
  return {.graph = recognize_linear(recognize_layers(model.graph)), .weights = std::move(model.state)};
}

std::string model_name_in(const std::filesystem::path& node_data, const std::string& given) {
  if (!is_file(given)) return given;
  const std::filesystem::path path = std::filesystem::absolute(given).lexically_normal();
  const std::filesystem::path below =
      path.lexically_relative(std::filesystem::absolute(node_data).lexically_normal());
  return below.empty() || *below.begin() == ".." ? path.string() : below.string();
}

}  // namespace rookery
