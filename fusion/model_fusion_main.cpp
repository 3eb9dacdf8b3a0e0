#include "fusion/fuse_checkpoint.hpp"
#include "fusion/merge.hpp"
#include "fusion/upload.hpp"
#include "models/base/error.hpp"
#include "models/base/files/json_file.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/libraries/json.hpp"
#include "models/base/process/program.hpp"
#include "trainer/checkpoint/checkpoint_bucket.hpp"
#include "trainer/storage/place.hpp"

namespace rookery {
namespace {

const ProgramInfo kModelFusionInfo{
    .name = "model_fusion",
    .summary =
        "joins the submodels that were trained: one state dict for PyTorch (.pt) and for\n"
        "everything else (.safetensors), and the whole model for inference (.onnx).\n"
        "Refuses submodels that are missing, overlap, or were saved at different steps, and\n"
        "clusters that do not hold the same model; --cluster-id takes one of them. With\n"
        "--checkpoint it takes a step of a run that has not ended, or never will. --upload puts the\n"
        "files into a bucket as well; its server and its keys are those of the AWS command line\n"
        "(AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, ~/.aws; docs/data.md).",
    .example =
        "  model_fusion\n"
        "  model_fusion --checkpoint\n"
        "  model_fusion --checkpoint 500 --out after_500\n"
        "  model_fusion --upload s3://bucket/models/digits\n"
        "  python3 -c \"import torch; print(torch.load('trained/trained_state_dict.pt',"
        " weights_only=True).keys())\"",
};

struct FusedRun {
  FusedModel model;
  std::string checkpoint;  // its folder, if it is one
};

FusedRun fused_run(const ProgramArguments& arguments) {
  const std::filesystem::path node_data = arguments["node-data"].as<std::string>();
  const bool is_one = arguments.count("cluster-id") != 0;
  if (arguments.count("checkpoint") == 0) {
    return {.model = is_one ? fuse_cluster(node_data, arguments["cluster-id"].as<int>())
                            : fuse_clusters(node_data),
            .checkpoint = {}};
  }
  if (is_one && arguments["cluster-id"].as<int>() != 0) {
    throw UsageError(fmt::format("--cluster-id {}: a checkpoint is joined from the parts of cluster 0",
                                 arguments["cluster-id"].as<int>()));
  }
  const std::string name = arguments["checkpoint"].as<std::string>();
  std::optional<FetchedCheckpoint> far;
  if (is_address(name)) far.emplace(name);
  WholeCheckpoint checkpoint = open_checkpoint(node_data, far ? far->folder().string() : name);
  return {.model = fuse_checkpoint(checkpoint, node_data),
          .checkpoint = far ? far->address() : checkpoint.files().folder.string()};
}

int fuse(const ProgramArguments& arguments) {
  const bool is_uploaded = arguments.count("upload") != 0;
  const std::string address = is_uploaded ? arguments["upload"].as<std::string>() : "";
  if (is_uploaded) check_upload(address);
  const auto [model, checkpoint] = fused_run(arguments);
  const FusedFiles files = write_fused(model, arguments["out"].as<std::string>());
  const std::vector<std::string> uploaded = is_uploaded ? upload(files, address) : std::vector<std::string>();
  std::int64_t parameters = 0;
  for (const auto& [name, tensor] : model.state) parameters += tensor.shape().elements();
  if (arguments["json"].as<bool>()) {
    OrderedJson report = {{"cluster", std::stoi(model.metadata.at("cluster"))},
                          {"model", model.metadata.at("model")},
                          {"step", std::stoll(model.metadata.at("step"))},
                          {"tensors", model.state.size()},
                          {"elements", parameters},
                          {"safetensors", files.safetensors.string()},
                          {"pytorch", files.pytorch.string()},
                          {"onnx", files.onnx.string()}};
    if (!checkpoint.empty()) report["checkpoint"] = checkpoint;
    if (is_uploaded) report["uploaded"] = uploaded;
    fmt::print("{}\n", report.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
    return kDone;
  }
  fmt::print("Joined {} of {}, trained for {} steps: {} tensors, {} elements.\n", model.metadata.at("model"),
             checkpoint.empty() ? fmt::format("cluster {}", model.metadata.at("cluster"))
                                : fmt::format("checkpoint {}", checkpoint),
             model.metadata.at("step"), model.state.size(), parameters);
  fmt::print("Wrote {}\nWrote {}\n", files.safetensors.string(), files.pytorch.string());
  fmt::print("Wrote {}, whose weights are in {}\n", files.onnx.string(), files.safetensors.string());
  for (const std::string& place : uploaded) fmt::print("Uploaded {}\n", place);
  return kDone;
}

}  // namespace

int model_fusion_main(int argc, char** argv) {
  namespace po = boost::program_options;
  ProgramOptions options;
  options.add_options()("cluster-id", po::value<int>()->value_name("C"),
                        "join this cluster's submodels; without it all clusters have to hold the same")(
      "checkpoint", po::value<std::string>()->implicit_value("", "newest")->value_name("STEP|FOLDER|ADDRESS"),
      "join the parts of a checkpoint instead: of this step of those in node_data, in this folder, below "
      "this "
      "address of a bucket (s3://bucket/runs/digits), or, without a value, the newest one that is whole")(
      "node-data", po::value<std::string>()->default_value("./node_data")->value_name("DIR"),
      "the folder that clusterize and the providers wrote")(
      "out", po::value<std::string>()->default_value("./trained")->value_name("DIR"), "where the files go")(
      "upload", po::value<std::string>()->value_name("ADDRESS"),
      "also put the files there, below this address of a bucket: s3://bucket/models/digits")(
      "json", po::bool_switch(), "print one JSON object");
  return run_program(kModelFusionInfo, options, argc, argv, fuse);
}

}  // namespace rookery
