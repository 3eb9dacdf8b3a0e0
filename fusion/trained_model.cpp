#include "fusion/trained_model.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "fusion/fuse_checkpoint.hpp"
#include "fusion/merge.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/parse.hpp"
#include "models/io/onnx/onnx.hpp"
#include "models/io/state_file.hpp"
#include "trainer/checkpoint/checkpoint_bucket.hpp"
#include "trainer/storage/local_copy.hpp"

namespace rookery {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrained = "trained.safetensors";

// The number of a folder cluster_C.
std::optional<int> cluster_of(const fs::path& folder) {
  constexpr std::string_view kPrefix = "cluster_";
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const auto number = number_from<int>(std::string_view(name).substr(kPrefix.size()));
  return number && *number >= 0 ? number : std::nullopt;
}

TrainedModel from_fused(FusedModel fused) {
  return {.graph = std::move(fused.graph),
          .state = std::move(fused.state),
          .metadata = std::move(fused.metadata)};
}

// `place` is a folder cluster_C, or one in it.
TrainedModel read_cluster(const fs::path& place) {
  const fs::path folder = cluster_of(place) ? place : place.parent_path();
  const std::optional<int> cluster = cluster_of(folder);
  if (!cluster) {
    throw ConfigError(fmt::format(
        "{}: neither a folder cluster_C of a node_data, nor one of its stages, nor a checkpoint. A "
        "stage's weights are no whole model: put them back into node_data/cluster_C/<address>, "
        "beside the others",
        place.string()));
  }
  return from_fused(fuse_cluster(folder.parent_path(), *cluster));
}

TrainedModel read_checkpoint(const fs::path& folder, const fs::path& node_data) {
  WholeCheckpoint checkpoint = open_checkpoint(node_data, folder.string());
  TrainedModel model = from_fused(fuse_checkpoint(checkpoint, node_data));
  model.is_checkpoint = true;
  return model;
}

bool is_state_file_name(const std::string& name) {
  return std::ranges::any_of(std::array{".safetensors", ".pt", ".pth"},
                             [&](const char* ending) { return name.ends_with(ending); });
}

TrainedModel read_far(const Place& place, const fs::path& node_data) {
  if (place.kind() == Place::Kind::kS3 && !place.shown().ends_with(".onnx") &&
      !is_state_file_name(place.shown()))
    return read_checkpoint(FetchedCheckpoint(place.outer()).folder(), node_data);
  if (place.shown().ends_with(".onnx")) {
    throw ConfigError(
        fmt::format("{}: the weights of a model lie in a file beside it: name that, "
                    "trained_state_dict.safetensors, or copy "
                    "both here",
                    place.shown()));
  }
  SafetensorsFile file = LocalCopy(place).read(read_state_file);
  return {.graph = std::nullopt, .state = std::move(file.tensors), .metadata = std::move(file.metadata)};
}

}  // namespace

TrainedModel read_trained_model(const fs::path& path, const fs::path& node_data) {
  if (is_address(path.string())) return read_far(Place::of_address(path.string()), node_data);
  const fs::path absolute = fs::absolute(path / "").lexically_normal().parent_path();
  if (!checkpoints_in(path).empty()) return read_checkpoint(absolute, node_data);
  if (fs::is_directory(path)) return read_cluster(absolute);
  if (part_name(path)) {
    throw ConfigError(fmt::format("{}: a part of a checkpoint is no whole model: name its folder, {}",
                                  path.string(), absolute.parent_path().string()));
  }
  if (path.extension() == ".onnx") {
    OnnxModel model = import_onnx(path);
    return {.graph = std::move(model.graph),
            .state = std::move(model.state),
            .metadata = std::move(model.metadata)};
  }
  if (path.filename() == kTrained) return read_cluster(absolute.parent_path());
  SafetensorsFile file = read_state_file(path);
  return {.graph = std::nullopt, .state = std::move(file.tensors), .metadata = std::move(file.metadata)};
}

}  // namespace rookery
