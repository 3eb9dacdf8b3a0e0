#include "trainer/checkpoint/reshard/part_relay.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <fstream>
#include <system_error>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "trainer/checkpoint/reshard/pieces.hpp"

namespace rookery {
namespace {

class Source {
 public:
  explicit Source(const std::filesystem::path& path) : path_(path), stream_(path, std::ios::binary) {}

  std::uint64_t length() const {
    std::error_code code;
    const std::uintmax_t bytes = std::filesystem::file_size(path_, code);
    if (code) throw DataError(fmt::format("{}: cannot read: {}", path_.string(), code.message()));
    return bytes;
  }
  void read(std::span<std::byte> bytes) {
    if (!stream_.read(reinterpret_cast<char*>(bytes.data()), std::ssize(bytes)))
      throw DataError(fmt::format("{}: cannot read", path_.string()));
  }

 private:
  std::filesystem::path path_;
  std::ifstream stream_;
};

// From a stage to its Root.
void send_to_root(const PartRoute& route, Link& link) {
  Pieces pieces(link);
  Source file(route.path);
  const std::uint64_t length = file.length();
  pieces.send_length(0, route.name, length);
  std::vector<std::byte> piece(kCheckpointPieceBytes);
  for_each_piece(length, [&](std::uint64_t number, std::uint64_t /*at*/, std::size_t count) {
    const std::span<std::byte> bytes = std::span(piece).first(count);
    file.read(bytes);
    pieces.send_piece(0, route.name, number, bytes);
  });
}

// By the Roots: from a file, from a stage or from the Root before, to a file, to the next Root or both.
void pass_on(const PartRoute& route, const Agreement& agreement, bool is_first, bool is_last) {
  const ClusterRoots& roots = *agreement.roots();
  Pieces ring(roots.link());
  Pieces before = is_first ? Pieces(agreement.link()) : ring;
  const int from = is_first ? route.holder.value() : roots.before();
  std::optional<Source> own;
  if (is_first && from == 0) own.emplace(route.path);
  const std::uint64_t length = own ? own->length() : before.receive_length(from, route.name);
  if (!is_last) ring.send_length(roots.next(), route.name, length);
  std::optional<AtomicFile> taken;
  if (route.lacks[route.cluster]) {
    make_directories(route.path.parent_path());
    taken.emplace(route.path, length);
  }
  std::vector<std::byte> piece(kCheckpointPieceBytes);
  for_each_piece(length, [&](std::uint64_t number, std::uint64_t /*at*/, std::size_t count) {
    const std::span<std::byte> bytes = std::span(piece).first(count);
    if (own) {
      own->read(bytes);
    } else {
      before.receive_piece(from, route.name, number, bytes);
    }
    if (taken) taken->write(bytes);
    if (!is_last) ring.send_piece(roots.next(), route.name, number, bytes);
  });
  if (!taken) return;
  taken->commit();
  spdlog::info("{} has come from another cluster: {} bytes", route.path.string(), length);
}

}  // namespace

void relay_part(const PartRoute& route, const Agreement& agreement) {
  const auto clusters = static_cast<int>(route.lacks.size());
  const auto source = static_cast<int>(std::ranges::find(route.lacks, false) - route.lacks.begin());
  const auto distance = [&](int cluster) { return (cluster - source + clusters) % clusters; };
  int last = 0;
  for (int cluster = 0; cluster < clusters; ++cluster)
    if (route.lacks[cluster]) last = std::max(last, distance(cluster));
  const int own = distance(route.cluster);
  if (last == 0 || own > last) return;
  if (agreement.stage() == 0) {
    pass_on(route, agreement, own == 0, own == last);
  } else if (own == 0 && route.holder == agreement.stage()) {
    send_to_root(route, agreement.link());
  }
}

}  // namespace rookery
