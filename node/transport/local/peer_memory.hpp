// Two nodes on one machine: the one reads what the other sends out of the other's memory, by
// process_vm_readv(2). So the bytes are copied once, by their reader, where a socket of the loopback device
// copies them twice, and other threads move them on. The kernel allows that between processes of one user, if
// it was not told otherwise (Yama, seccomp); where it does not, bytes go through sockets, as to any other
// machine.
//
// The reader has to know that the memory is its peer's, and that what it has read was still there. So the
// peer keeps a mark in its memory, one half of which it has drawn and the other half the reader; the reader
// reads the mark after whatever else it reads. Who owns the memory clears the mark before anything is freed
// that may still be read. One thread at a time uses an object of these classes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "node/wire/packets.hpp"

namespace rookery {

// The memory of this process, for one peer.
class OwnMemory {
 public:
  OwnMemory();
  ~OwnMemory();  // withdraws
  OwnMemory(OwnMemory&&) noexcept = default;
  OwnMemory& operator=(OwnMemory&&) = delete;

  MemoryOffer offer() const;
  // Puts the half there that the reader has drawn.
  void admit(std::uint64_t reader);
  // What is read from here on counts for nothing.
  void withdraw();

 private:
  struct Mark {
    std::atomic<std::uint64_t> owner{0};
    std::atomic<std::uint64_t> reader{0};
  };
  std::unique_ptr<Mark> mark_;
};

// That of a peer, as it has offered it.
class PeerMemory {
 public:
  // Nothing where this process cannot read it.
  static std::optional<PeerMemory> open(const MemoryOffer& offer);

  const MemoryOffer& offer() const { return offer_; }
  // The half of the mark that this process has drawn; never 0.
  std::uint64_t reader() const { return reader_; }

  // All bytes of `into`, from this address on. False where they are not there, or the mark is not, neither
  // of which says what `into` holds then.
  bool read(std::uint64_t address, std::span<std::byte> into) const;

 private:
  PeerMemory(const MemoryOffer& offer, std::uint64_t reader) : offer_(offer), reader_(reader) {}

  MemoryOffer offer_;
  std::uint64_t reader_;
};

}  // namespace rookery
