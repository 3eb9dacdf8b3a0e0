#include "trainer/checkpoint/checkpoint_bucket.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/storage/temporary_file.hpp"

namespace rookery {
namespace {

// A checkpoint as far as a list of objects has it.
struct Listed {
  std::int64_t step = 0;
  std::string folder;                          // its key
  std::vector<std::optional<S3Object>> parts;  // by stage

  bool is_complete() const {
    return std::ranges::all_of(parts, [](const auto& part) { return part.has_value(); });
  }
};

using ListedByPlan = std::map<std::pair<std::string, int>, std::map<std::int64_t, Listed>>;

ListedByPlan listed_from(const std::vector<S3Object>& objects) {
  ListedByPlan all;
  for (const S3Object& object : objects) {
    const std::filesystem::path key = object.key;
    const std::optional<std::int64_t> step = step_of_folder(key.parent_path());
    const std::optional<PartName> name = part_name(key);
    if (!step || !name) continue;
    Listed& listed = all[{name->plan_id, name->stages}][*step];
    listed.step = *step;
    listed.folder = key.parent_path().string();
    listed.parts.resize(name->stages);
    listed.parts[name->stage] = object;
  }
  return all;
}

// The highest step that is complete, of the plan of which such a one was put there last.
std::optional<Listed> newest_complete(const ListedByPlan& all) {
  std::optional<Listed> newest;
  std::string newest_time;
  for (const auto& [plan, steps] : all) {
    const auto found = std::find_if(steps.rbegin(), steps.rend(),
                                    [](const auto& entry) { return entry.second.is_complete(); });
    if (found == steps.rend()) continue;
    std::string time;
    for (const auto& part : found->second.parts) time = std::max(time, part->modified);
    if (newest && std::tuple(time, found->first) < std::tuple(newest_time, newest->step)) continue;
    newest = found->second;
    newest_time = time;
  }
  return newest;
}

void fetch(const RandomFile& object, const std::filesystem::path& to) {
  const std::shared_ptr<const TemporaryFile> copy = fetched(object);
  std::error_code code;
  std::filesystem::copy_file(copy->path(), to, code);
  if (code) {
    throw DataError(fmt::format("{}: cannot be kept in {}: {}: set TMPDIR to a folder with room for it",
                                object.name(), to.parent_path().string(), code.message()));
  }
}

}  // namespace

CheckpointBucket::CheckpointBucket(const std::string& address, CheckpointOwner owner)
    : s3_(s3_access()), folder_(S3Address::of_folder(address)), owner_(std::move(owner)) {
  s3_.list(folder_);
}

S3Address CheckpointBucket::place(std::int64_t step) const {
  return {folder_.bucket,
          fmt::format("{}{}/{}", folder_.key, step, part_path(owner_, step).filename().string())};
}

void CheckpointBucket::put(std::int64_t step) const {
  s3_.upload(*open_local_file(part_path(owner_, step)), place(step));
}

void CheckpointBucket::remove_old(std::int64_t whole, int keep) const {
  std::vector<std::int64_t> steps;
  for (const S3Object& object : s3_.list(folder_)) {
    const std::optional<std::int64_t> step = step_of_folder(std::filesystem::path(object.key).parent_path());
    if (step && *step <= whole && object.key == place(*step).key) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < steps.size(); ++i) s3_.remove(place(steps[i]));
}

FetchedCheckpoint::FetchedCheckpoint(const std::string& address) {
  const S3 s3(s3_access());
  const S3Address folder = S3Address::of_folder(address);
  const std::optional<Listed> newest = newest_complete(listed_from(s3.list(folder)));
  if (!newest) {
    throw ConfigError(
        fmt::format("{}: there is no checkpoint below it that has all of its parts, "
                    "STEP/PLAN_K_of_S.safetensors",
                    folder.text()));
  }
  address_ = S3Address{folder.bucket, newest->folder}.text();
  temporary_ = make_temporary_folder();
  folder_ = temporary_ / fmt::to_string(newest->step);
  try {
    make_directories(folder_);
    for (const auto& part : newest->parts) {
      const std::filesystem::path name = std::filesystem::path(part->key).filename();
      fetch(*s3.open(folder.bucket, *part), folder_ / name);
    }
  } catch (...) {
    std::error_code code;
    std::filesystem::remove_all(temporary_, code);
    throw;
  }
}

FetchedCheckpoint::~FetchedCheckpoint() {
  std::error_code code;
  std::filesystem::remove_all(temporary_, code);
}

}  // namespace rookery
