// Runs a fuzz target without libFuzzer: on every file of a corpus, and on so many inputs made of them by
// mutations that depend on a seed alone. Takes the sanitizers that it is built with; memory that grows by
// more than kMostGrowth is a failure, too. What fails is left as crash-input in the current folder.
//
//   fuzz_NAME CORPUS_FOLDER RUNS [SEED]
//   fuzz_NAME FILE                        runs that one
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "models/base/files/files.hpp"
#include "models/base/libraries/format.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
// Of the sanitizers, where there are any.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));
// Memory that is freed comes back soon, so that what is in use can be seen.
extern "C" const char* __asan_default_options() {
  return "quarantine_size_mb=8";
}

namespace rookery {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBytes = 1U << 20;  // of an input
constexpr long kMostGrowth = 256L << 10;        // KiB
using Random = std::mt19937_64;

std::string current;  // NOLINT(*-non-const-global-variables): for when all else is lost

void keep_input() {
  std::ofstream("crash-input", std::ios::binary) << current;
  fmt::print(stderr, "the input that failed is crash-input, {} bytes\n", current.size());
}

void on_signal(int signal) {
  keep_input();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

long peak_kilobytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

void run(std::string input) {
  const long before = peak_kilobytes();
  current = std::move(input);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(current.data()), current.size());
  if (const long grown = peak_kilobytes() - before; grown > kMostGrowth) {
    fmt::print(stderr, "memory grew by {} MiB\n", grown >> 10);
    std::abort();
  }
}

std::string mutated(const std::vector<std::string>& corpus, Random& random) {
  const auto below = [&](std::size_t count) { return count == 0 ? 0 : random() % count; };
  std::string input = corpus[below(corpus.size())];
  for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
    const std::size_t at = below(input.size());
    const std::size_t length = std::min<std::size_t>(1 + below(16), input.size() - at);
    switch (below(7)) {
      case 0:
        if (!input.empty()) input[at] = static_cast<char>(input[at] ^ 1 << below(8));
        break;
      case 1:
        if (!input.empty()) input[at] = static_cast<char>(random());
        break;
      case 2: {  // numbers at the edges of their types
        constexpr std::array<std::uint64_t, 8> kEdges{0,      1,          0x7F,       0xFF,
                                                      0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, ~0ULL >> 1};
        const std::uint64_t edge = kEdges.at(below(kEdges.size()));
        for (std::size_t i = 0; i < length && i < sizeof edge; ++i)
          input[at + i] = static_cast<char>(edge >> (8 * i));
        break;
      }
      case 3:
        input.resize(at);
        break;
      case 4:
        input.erase(at, length);
        break;
      case 5:
        input.insert(at, input.substr(below(input.size()), length));
        break;
      default: {  // the rest of another one
        const std::string& other = corpus[below(corpus.size())];
        input = input.substr(0, at) + other.substr(std::min(at, other.size()));
      }
    }
  }
  return input;
}

int fuzz(int argc, char** argv) {
  const fs::path from = argc > 1 ? argv[1] : "";
  if (fs::is_regular_file(from)) {
    run(read_file(from, kMostBytes));
    return 0;
  }
  if (argc < 3 || !fs::is_directory(from)) {
    fmt::print(stderr, "usage: {} CORPUS_FOLDER RUNS [SEED], or {} FILE\n", argv[0], argv[0]);
    return 2;
  }
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<std::string> corpus;
  for (const fs::path& file : files) corpus.push_back(read_file(file, kMostBytes));
  if (corpus.empty()) {
    fmt::print(stderr, "{} is empty\n", from.string());
    return 2;
  }
  for (const std::string& input : corpus) run(input);
  Random random(argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1);
  const std::uint64_t runs = std::strtoull(argv[2], nullptr, 10);
  for (std::uint64_t i = 0; i < runs; ++i) run(mutated(corpus, random));
  fmt::print("{} inputs, {} MiB at the peak\n", corpus.size() + runs, peak_kilobytes() >> 10);
  return 0;
}

}  // namespace
}  // namespace rookery

int main(int argc, char** argv) {
  std::signal(SIGABRT, rookery::on_signal);
  std::signal(SIGSEGV, rookery::on_signal);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(rookery::keep_input);
  return rookery::fuzz(argc, argv);
}
