// "tokens:FILE": a text as the numbers of its tokens, one after the other, in 2 or 4 bytes each
// (little-endian), as nanoGPT's prepare.py and others write it. The file is mapped: it may be larger than
// memory.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "trainer/data/formats.hpp"
#include "trainer/storage/local_copy.hpp"

namespace rookery {
namespace {

static_assert(std::endian::native == std::endian::little);

// A file's bytes, as they are read. One that becomes shorter meanwhile ends the process with SIGBUS.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (descriptor < 0 || fstat(descriptor, &status) != 0) {
      const int reason = errno;
      if (descriptor >= 0) close(descriptor);
      throw DataError(fmt::format("{}: cannot read: {}", path.string(), std::strerror(reason)));
    }
    size_ = S_ISREG(status.st_mode) ? static_cast<std::size_t>(status.st_size) : 0;
    if (size_ > 0) data_ = mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0);
    const int reason = errno;
    close(descriptor);
    if (size_ > 0 && data_ == MAP_FAILED)
      throw DataError(fmt::format("{}: cannot map: {}", path.string(), std::strerror(reason)));
  }
  ~MappedFile() {
    if (size_ > 0) munmap(data_, size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

struct TokenOptions {
  std::size_t token_bytes = 2;
  std::int64_t length = 128;  // of a sample
  std::int64_t words = 0;     // tokens are below this
};

class Tokens : public Dataset {
 public:
  Tokens(const Place& place, const TokenOptions& options)
      : copy_(place), options_(options), file_(copy_.read([](const std::filesystem::path& path) {
          return std::make_unique<MappedFile>(path);
        })) {
    const std::size_t bytes = file_->bytes().size();
    if (bytes % options.token_bytes != 0) {
      throw DataError(
          fmt::format("{}: {} bytes are no whole number of tokens of {}: an incomplete copy, or of another "
                      "type (type=u16, type=u32)?",
                      copy_.name(), bytes, options.token_bytes));
    }
    tokens_ = static_cast<std::int64_t>(bytes / options.token_bytes);
    if (tokens_ <= options.length) {
      throw DataError(
          fmt::format("{}: has {} tokens, a sample takes {} and the one that follows: give a smaller length",
                      copy_.name(), tokens_, options.length));
    }
    const TensorType type{DType::kI64, {kBatch, options.length}};
    tensors_ = {{"input", type}, {kLabels, type}};
  }

  // Samples follow each other; what is left at the end is no sample.
  std::int64_t size() const override { return (tokens_ - 1) / options_.length; }
  const ValueTypes& tensors() const override { return tensors_; }
  std::int64_t bytes() const override { return 0; }  // pages that the system takes back when it needs them
  bool is_at_hand() const override { return false; }

  void gather(const std::string& name, std::span<const std::int64_t> ids, TensorView into) const override {
    ROOKERY_CHECK(tensors_.contains(name), "the data set has no tensor '{}'", name);
    const auto to = into.as<std::int64_t>();
    ROOKERY_CHECK(std::ssize(to) == std::ssize(ids) * options_.length, "{} samples of {} tokens into {}",
                  ids.size(), options_.length, to.size());
    const std::int64_t follows = name == kLabels ? 1 : 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ROOKERY_CHECK(ids[i] >= 0 && ids[i] < size(), "sample {} of {}", ids[i], size());
      for (std::int64_t k = 0; k < options_.length; ++k)
        to[i * static_cast<std::size_t>(options_.length) + static_cast<std::size_t>(k)] =
            token(ids[i] * options_.length + k + follows);
    }
  }

 private:
  std::int64_t token(std::int64_t place) const {
    const std::byte* from = file_->bytes().data() + static_cast<std::size_t>(place) * options_.token_bytes;
    std::uint32_t number = 0;
    std::memcpy(&number, from, options_.token_bytes);
    if (number >= options_.words) {
      throw DataError(
          fmt::format("{}: token {} is {}, but there are {} (0 to {}): another type, or another tokenizer?",
                      copy_.name(), place, number, options_.words, options_.words - 1));
    }
    return number;
  }

  LocalCopy copy_;
  TokenOptions options_;
  std::unique_ptr<MappedFile> file_;
  std::int64_t tokens_ = 0;
  ValueTypes tensors_;
};

std::unique_ptr<Dataset> open_tokens(NamedOptions& options, const DataPlace& place) {
  const std::array<std::string, 2> types{"u16", "u32"};
  TokenOptions tokens;
  tokens.token_bytes = options.choice("type", "u16", types) == "u16" ? 2 : 4;
  tokens.length = options.integer("length", 128, 1, 1 << 20);
  tokens.words = options.integer("words", tokens.token_bytes == 2 ? 1 << 16 : std::int64_t{1} << 32, 1,
                                 std::int64_t{1} << 32);
  options.expect_none_left();
  return std::make_unique<Tokens>(place.where, tokens);
}

}  // namespace

DataFormat tokens_format() {
  return {.name = "tokens:FILE",
          .pattern = "tokens:.",
          .help =
              "a text as numbers of tokens of 2 or 4 bytes, little-endian, which is mapped and may be larger "
              "than "
              "memory: `input` i64[length], `labels` the tokens that follow. For `gpt`. Options: `type=u16` "
              "or `u32`, "
              "`length=128`, `words` (tokens are below it: the model's vocabulary)",
          .open = open_tokens};
}

}  // namespace rookery
