// Reads a folder of images sample after sample on one thread, for read_images.py: for every number N on
// standard input it reads N samples, going on where it was, and prints the seconds of processor time that
// each of them took.
//
//   build/bin/read_images FOLDER SIZE [FILE]
//
// FILE gets the first 32 samples as floats.

#include <ctime>
#include <fstream>
#include <iostream>
#include <string>

#include "models/base/libraries/format.hpp"
#include "trainer/data/augment/augmented_dataset.hpp"
#include "trainer/data/dataset.hpp"

namespace {

using namespace rookery;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

int read_images(const std::string& folder, const std::string& size, const std::string& file) {
  const auto dataset =
      augmented(open_dataset("images:?size=" + size, folder, {.cache_mib = 0}), {{"horizontal_flip", {}}});
  const TensorType& type = dataset->tensors().at("input");
  Tensor sample(type.dtype, type.shape.with_batch(1));
  if (!file.empty()) {
    std::ofstream first(file, std::ios::binary);
    for (std::int64_t id = 0; id < std::min<std::int64_t>(32, dataset->size()); ++id) {
      dataset->gather("input", std::span(&id, 1), sample.view());
      const auto bytes = sample.view().bytes();
      first.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    }
  }
  std::int64_t next = 0;
  for (std::int64_t samples = 0; std::cin >> samples;) {
    const double begin = thread_seconds();
    for (std::int64_t i = 0; i < samples; ++i, next = (next + 1) % dataset->size())
      dataset->gather_training("input", std::span(&next, 1), {}, sample.view());
    fmt::print("{}\n", (thread_seconds() - begin) / static_cast<double>(samples));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "read_images FOLDER SIZE [FILE]\n");
    return 2;
  }
  try {
    return read_images(argv[1], argv[2], argc > 3 ? argv[3] : "");
  } catch (const std::exception& error) {
    fmt::print(stderr, "read_images: {}\n", error.what());
    return 1;
  }
}
