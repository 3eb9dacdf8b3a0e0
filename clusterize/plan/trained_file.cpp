#include "clusterize/plan/trained_file.hpp"

#include <limits>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/io/checkpoint/checked_file.hpp"

namespace rookery {
namespace {

constexpr const char* kTrainedFormat = "rookery.trained";
constexpr const char* kTrainedVersion = "2";
constexpr const char* kUncheckedVersion = "1";
constexpr const char* kLongestDigest = "ffffffffffffffff";

Metadata metadata_of(const NodeMetadata& node, std::int64_t step, const std::string& sample_digest) {
  Metadata metadata = run_metadata(node.settings, node.plan_id, node.cluster, step);
  metadata.merge(Metadata{{"format", kTrainedFormat},
                          {"version", kTrainedVersion},
                          {"node", node.node},
                          {"stage", fmt::to_string(node.stage)},
                          {"stages", fmt::to_string(node.stages)}});
  if (!sample_digest.empty()) metadata["sample_digest"] = sample_digest;
  return metadata;
}

std::string version_of(const Metadata& metadata) {
  const auto format = metadata.find("format");
  if (format == metadata.end()) throw DataError("its metadata has no 'format'");
  if (format->second != kTrainedFormat) throw DataError("this is not a trained submodel");
  const auto version = metadata.find("version");
  if (version == metadata.end()) throw DataError("its metadata has no 'version'");
  if (version->second != kTrainedVersion && version->second != kUncheckedVersion) {
    throw DataError(fmt::format("format version {}, this program knows up to {}: use a newer Rookery",
                                version->second, kTrainedVersion));
  }
  return version->second;
}

std::uint64_t most_bytes(const NodeMetadata& node, const StateViews& state) {
  return checked_bytes(state, metadata_of(node, std::numeric_limits<std::int64_t>::max(), kLongestDigest));
}

}  // namespace

Metadata run_metadata(const TrainingSettings& settings, const std::string& plan_id, int cluster,
                      std::int64_t step) {
  Metadata metadata{{"plan_id", plan_id},
                    {"cluster", fmt::to_string(cluster)},
                    {"step", fmt::to_string(step)},
                    {"model", settings.model},
                    {"data", settings.data},
                    {"seed", fmt::to_string(settings.seed)},
                    {"train_fraction", fmt::format("{}", settings.train_fraction)},
                    {"split", settings.split},
                    {"loss", to_text(settings.loss)}};
  if (!settings.augment.empty()) metadata["augment"] = to_text(settings.augment);
  return metadata;
}

void write_trained(const std::filesystem::path& node_data, const NodeMetadata& node, const StateDict& state,
                   std::int64_t step, const std::string& sample_digest) {
  write_trained(node_data, node, views_of(state), step, sample_digest);
}

void write_trained(const std::filesystem::path& node_data, const NodeMetadata& node, const StateViews& state,
                   std::int64_t step, const std::string& sample_digest) {
  make_directories(stage_folder(node_data, node));
  write_checked(trained_path(node_data, node), state, metadata_of(node, step, sample_digest));
}

SafetensorsFile read_trained(const std::filesystem::path& path) {
  const Metadata metadata = safetensors_metadata(path);
  const std::string version = with_context(path.string(), [&] { return version_of(metadata); });
  return version == kUncheckedVersion ? read_safetensors(path) : read_checked(path);
}

TrainedFile::TrainedFile(const std::filesystem::path& node_data, const NodeMetadata& node,
                         const StateViews& state)
    : node_data_(node_data), node_(node) {
  file_.emplace(trained_path(node_data, node), most_bytes(node, state));
}

void TrainedFile::write(const StateViews& state, std::int64_t step, const std::string& sample_digest,
                        const std::vector<std::filesystem::path>& elsewhere) {
  const Metadata metadata = metadata_of(node_, step, sample_digest);
  std::string problems;
  const auto is_written = [&](const auto& write) {
    try {
      write();
      return true;
    } catch (const DataError& error) {
      const std::string problem = error.what();
      if (problems.find(problem) == std::string::npos) problems += problem + "; ";
      return false;
    }
  };
  if (is_written([&] { write_checked(file_.value(), state, metadata); })) return;
  file_.reset();  // gives back its room
  if (is_written([&] { write_trained(node_data_, node_, state, step, sample_digest); })) return;
  const std::string name = fmt::format("trained_{}_{}.safetensors", node_.node, node_.plan_id);
  for (const std::filesystem::path& folder : elsewhere) {
    const std::filesystem::path path = std::filesystem::absolute(folder / name).lexically_normal();
    if (!is_written([&] { write_checked(path, state, metadata); })) continue;
    throw DataError(fmt::format("{}the trained weights of {} are in {}: move them to {}", problems,
                                node_.node, path.string(), trained_path(node_data_, node_).string()));
  }
  throw DataError(fmt::format("{}the trained weights of {} are lost", problems, node_.node));
}

}  // namespace rookery
