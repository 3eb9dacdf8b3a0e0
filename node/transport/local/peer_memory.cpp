#include "node/transport/local/peer_memory.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <filesystem>
#include <random>
#include <system_error>

#include "models/base/error.hpp"
#include "models/base/files/files.hpp"
#include "models/base/fnv.hpp"

namespace rookery {
namespace {

std::uint64_t draw() {
  std::random_device device;
  std::uint64_t drawn = 0;
  while (drawn == 0) drawn = (std::uint64_t{device()} << 32) | device();
  return drawn;
}

// Of the kernel that runs, and of the network that this process sees of it: who is in another one is to be
// reached through it, as if it were elsewhere. 0: not known.
std::uint64_t this_machine() {
  try {
    Fnv1a machine;
    machine.add(read_file("/proc/sys/kernel/random/boot_id", 4096));
    machine.add(std::filesystem::read_symlink("/proc/self/ns/net").string());
    return machine.value();
  } catch (const std::exception&) {
    return 0;
  }
}

// The pieces `from` of the process's memory, one after the other, into `into`; false unless all are there.
template <std::size_t kPieces>
bool read_memory(int process, const std::array<iovec, kPieces>& into,
                 const std::array<iovec, kPieces>& from) {
  std::size_t bytes = 0;
  for (const iovec& piece : from) bytes += piece.iov_len;
  const ssize_t done = process_vm_readv(process, into.data(), kPieces, from.data(), kPieces, 0);
  return done >= 0 && static_cast<std::size_t>(done) == bytes;
}

iovec piece_at(std::uint64_t address, std::size_t bytes) {
  return {std::bit_cast<void*>(static_cast<std::uintptr_t>(address)), bytes};
}

}  // namespace

OwnMemory::OwnMemory() : mark_(std::make_unique<Mark>()) {
  mark_->owner = draw();
}

OwnMemory::~OwnMemory() {
  if (mark_) withdraw();
}

MemoryOffer OwnMemory::offer() const {
  static const std::uint64_t machine = this_machine();
  return {.machine = machine,
          .process = static_cast<std::int32_t>(getpid()),
          .mark_at = std::bit_cast<std::uintptr_t>(mark_.get()),
          .mark = mark_->owner};
}

void OwnMemory::admit(std::uint64_t reader) {
  mark_->reader = reader;
}

void OwnMemory::withdraw() {
  mark_->owner = 0;
  mark_->reader = 0;
}

std::optional<PeerMemory> PeerMemory::open(const MemoryOffer& offer) {
  static const std::uint64_t machine = this_machine();
  if (offer.machine == 0 || offer.machine != machine || offer.process <= 0) return std::nullopt;
  std::uint64_t mark = 0;
  const std::array into{iovec{&mark, sizeof mark}};
  if (!read_memory(offer.process, into, std::array{piece_at(offer.mark_at, sizeof mark)}))
    return std::nullopt;
  if (mark != offer.mark) return std::nullopt;  // it is another process that has this number here
  return PeerMemory(offer, draw());
}

bool PeerMemory::read(std::uint64_t address, std::span<std::byte> into) const {
  std::array<std::uint64_t, 2> mark{};
  const std::array here{iovec{into.data(), into.size()}, iovec{mark.data(), sizeof mark}};
  const std::array there{piece_at(address, into.size()), piece_at(offer_.mark_at, sizeof mark)};
  return read_memory(offer_.process, here, there) && mark[0] == offer_.mark && mark[1] == reader_;
}

}  // namespace rookery
