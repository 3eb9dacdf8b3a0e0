// "numpy:FILE": arrays by name, each with the samples along its first dimension.

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/data/formats.hpp"
#include "trainer/data/tensors/npy.hpp"
#include "trainer/storage/file_tree.hpp"

namespace rookery {
namespace {

constexpr std::string_view kEnding = ".npy";

std::string stem_of(std::string_view path) {
  const std::size_t name = path.rfind('/') + 1;  // 0 where there is none
  return std::string(path.substr(name, path.size() - name - kEnding.size()));
}

StoredTensors read_arrays(const Place& place, float scale) {
  StoredTensors arrays;
  const std::string path = place.inner().empty() ? place.shown() : place.inner();
  if (path.ends_with(kEnding)) {
    arrays.emplace(stem_of(path), read_npy(open_file(place), scale));
    return arrays;
  }
  const std::unique_ptr<FileTree> folder = open_tree(place);
  for (const std::string& name : folder->files()) {
    const bool is_in_folder = name.find('/') == std::string::npos;
    if (is_in_folder && name.ends_with(kEnding))
      arrays.emplace(stem_of(name), read_npy(folder->open(name), scale));
  }
  if (arrays.empty()) throw DataError(fmt::format("{}: has no files .npy", folder->name()));
  return arrays;
}

std::unique_ptr<Dataset> open_numpy(NamedOptions& options, const DataPlace& place) {
  constexpr double kWhite = 255;
  const auto scale = static_cast<float>(options.number("scale", kWhite, 1e-30, 1e30));
  options.expect_none_left();
  return dataset_of(place.where.shown(), read_arrays(place.where, scale), place.reading);
}

}  // namespace

DataFormat numpy_format() {
  return {
      .name = "numpy:FILE",
      .pattern = "numpy:.",
      .help =
          "NumPy's arrays, the model's inputs and targets by name, the samples along the first dimension: "
          "an `.npz`, or a folder of `.npy` files: floats as f32, integers as i64, bytes (uint8) in two or "
          "more dimensions as f32. They may be larger than memory. Options: `scale=255`, which bytes are "
          "divided "
          "by",
      .open = open_numpy};
}

}  // namespace rookery
