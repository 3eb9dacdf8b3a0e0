// Rookery's side of read_images.py.

#include <ctime>
#include <fstream>
#include <iostream>
#include <string>

#include "models/base/libraries/format.hpp"
#include "models/base/process/program.hpp"
#include "trainer/data/augment/augmented_dataset.hpp"
#include "trainer/data/dataset.hpp"

namespace {

using namespace rookery;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void read_images(const std::string& folder, int size, const std::string& file) {
  const auto dataset = augmented(open_dataset(fmt::format("images:?size={}", size), folder, {.cache_mib = 0}),
                                 {{"horizontal_flip", {}}});
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
}

}  // namespace

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  const rookery::ProgramInfo info{
      .name = "read_images",
      .summary =
          "Reads a folder of images sample after sample on one thread: for every number N on standard input "
          "it reads N samples, going on where it was, and prints the seconds of processor time that each of "
          "them took.",
      .example = "  echo 100 | read_images --folder images --size 180\n"};
  rookery::ProgramOptions options;
  std::string folder;
  std::string first;
  int size = 0;
  options.add_options()("folder", po::value(&folder)->required(), "with a folder of images for each class")(
      "size", po::value(&size)->default_value(180), "in pixels, to which images are resized")(
      "first", po::value(&first), "a file to write the first 32 samples to, as floats");
  return rookery::run_program(info, options, argc, argv, [&](const rookery::ProgramArguments&) {
    read_images(folder, size, first);
    return rookery::kDone;
  });
}
