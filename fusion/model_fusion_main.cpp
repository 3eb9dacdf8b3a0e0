#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "fusion/merge.hpp"
#include "models/base/files/json_file.hpp"
#include "models/base/process/program.hpp"

namespace rookery {
namespace {

const ProgramInfo kInfo{
    .name = "model_fusion",
    .summary =
        "joins the submodels that a cluster has trained: one state dict for PyTorch (.pt) and for\n"
        "everything else (.safetensors), and the whole model for inference (.onnx).\n"
        "Refuses submodels that are missing, overlap, or were saved at different steps.",
    .example =
        "  model_fusion --cluster-id 0\n"
        "  python3 -c \"import torch; print(torch.load('trained/trained_state_dict.pt',"
        " weights_only=True).keys())\"",
};

int fuse(const ProgramArguments& arguments) {
  const FusedModel model =
      fuse_cluster(arguments["node-data"].as<std::string>(), arguments["cluster-id"].as<int>());
  const FusedFiles files = write_fused(model, arguments["out"].as<std::string>());
  std::int64_t parameters = 0;
  for (const auto& [name, tensor] : model.state) parameters += tensor.shape().elements();
  if (arguments["json"].as<bool>()) {
    const OrderedJson report = {{"cluster", arguments["cluster-id"].as<int>()},
                                {"model", model.metadata.at("model")},
                                {"step", std::stoll(model.metadata.at("step"))},
                                {"tensors", model.state.size()},
                                {"elements", parameters},
                                {"safetensors", files.safetensors.string()},
                                {"pytorch", files.pytorch.string()},
                                {"onnx", files.onnx.string()}};
    fmt::print("{}\n", report.dump());
    return kDone;
  }
  fmt::print("Joined {} of cluster {}, trained for {} steps: {} tensors, {} elements.\n",
             model.metadata.at("model"), arguments["cluster-id"].as<int>(), model.metadata.at("step"),
             model.state.size(), parameters);
  fmt::print("Wrote {}\nWrote {}\n", files.safetensors.string(), files.pytorch.string());
  fmt::print("Wrote {}, whose weights are in {}\n", files.onnx.string(), files.safetensors.string());
  return kDone;
}

}  // namespace
}  // namespace rookery

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  rookery::ProgramOptions options;
  options.add_options()("cluster-id", po::value<int>()->default_value(0)->value_name("C"),
                        "the cluster whose submodels are joined")(
      "node-data", po::value<std::string>()->default_value("./node_data")->value_name("DIR"),
      "the folder that clusterize and the providers wrote")(
      "out", po::value<std::string>()->default_value("./trained")->value_name("DIR"), "where the files go")(
      "json", po::bool_switch(), "print one JSON object");
  return rookery::run_program(rookery::kInfo, options, argc, argv, rookery::fuse);
}
