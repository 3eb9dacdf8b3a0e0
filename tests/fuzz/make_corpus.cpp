// Writes the files that the fuzz targets start from, as far as they are ours:
//
//   make_fuzz_corpus tests/fuzz/corpus
//
// torch_*.pt and torch_*.pickle there were made with PyTorch 1.13 by make_corpus.py.
#include "models/base/files/files.hpp"
#include "models/graph/ops/builder.hpp"
#include "models/graph/state/initialize.hpp"
#include "models/io/onnx/onnx.hpp"
#include "models/io/pytorch/pytorch.hpp"
#include "tests/fusion/trained_cluster.hpp"

namespace {

using namespace rookery;
namespace fs = std::filesystem;

void write_model(const fs::path& folder, const std::string& name, const Graph& graph) {
  const ScratchFolder scratch;  // of the weights, which the target has its own of
  write_onnx(scratch.path() / "model.onnx", "weights.safetensors", graph, initial_state(graph, 1));
  make_directories(folder);
  fs::copy_file(scratch.path() / "model.onnx", folder / (name + ".onnx"),
                fs::copy_options::overwrite_existing);
}

void write_models(const fs::path& folder) {
  GraphBuilder image;
  ValueId x = image.input("x", {2, 6, 6});
  x = image.relu("relu", image.batch_norm("bn", image.conv2d("conv", x, 3)));
  x = image.flatten("flatten", image.max_pool2d("pool", x, 2, 2));
  write_model(folder, "image", image.finish(image.softmax("softmax", image.linear("dense", x, 4))));
  GraphBuilder text;
  ValueId y = text.embedding("embedding", text.input("ids", {5}, DType::kI64), 7, 8);
  y = text.self_attention("attention", text.linear("qkv", text.layer_norm("norm", y), 24), {.heads = 2});
  write_model(folder, "text", text.finish(text.dropout("dropout", text.gelu("gelu", y), 0.1F)));
  GraphBuilder shapes;
  ValueId z = shapes.reshape("reshape", shapes.input("x", {4, 6}), {0, 2, 12});
  z = shapes.concat("concat", shapes.split("split", shapes.transpose("transpose", z, {0, 2, 1}), {5, 7}, 1),
                    1);
  write_model(
      folder, "shapes",
      shapes.finish(shapes.slice(
          "slice", shapes.squeeze("squeeze", shapes.unsqueeze("unsqueeze", z, {1}), {1}), 1, 2, 9, 3)));
}

void write_states(const fs::path& folder) {
  StateDict state;
  state.emplace("weight", Tensor(DType::kF32, {2, 3}));
  state.emplace("wide", Tensor(DType::kF64, {2}));
  state.emplace("count", Tensor(DType::kI64, {}));
  state.emplace("flag", Tensor(DType::kBool, {3}));
  make_directories(folder / "safetensors");
  make_directories(folder / "pytorch");
  write_safetensors(folder / "safetensors" / "state.safetensors", state, {{"model", "cnn_net"}});
  write_safetensors(folder / "safetensors" / "empty.safetensors", StateDict());
  write_pytorch(folder / "pytorch" / "state.pt", state, {"weight", "wide", "count", "flag"});
}

void write_submodel(const fs::path& folder) {
  const TrainedCluster cluster;
  make_directories(folder);
  fs::copy_file(cluster.submodel(1), folder / "trained.safetensors", fs::copy_options::overwrite_existing);
  // Of the older version, whose mutations no checksum stops.
  SafetensorsFile file = read_trained(cluster.submodel(1));
  file.metadata["version"] = "1";
  write_safetensors(folder / "unchecked.safetensors", file.tensors, file.metadata);
}

void write_checkpoint(const fs::path& folder) {
  const TrainedCluster cluster;
  cluster.write_checkpoint(cluster.node(0).settings);
  const Metadata metadata =
      CheckedReader(part_path({cluster.node_data(), cluster.node(1).plan_id, 1, 3}, TrainedCluster::kStep))
          .metadata();
  make_directories(folder);
  write_file(folder / "part.txt", fmt::format("{}\n{}\n{}\n", metadata.at("run"), metadata.at("settings"),
                                              metadata.at("kernels")));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const fs::path folder = argv[1];
  write_models(folder / "onnx");
  write_states(folder);
  write_submodel(folder / "trained");
  write_checkpoint(folder / "checkpoint");
}
