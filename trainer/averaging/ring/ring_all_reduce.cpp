#include "trainer/averaging/ring/ring_all_reduce.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "models/base/check.hpp"
#include "models/kernels/arithmetic.hpp"
#include "models/kernels/processor.hpp"

namespace rookery {
namespace {

constexpr std::uint64_t kPieceBytes = 256U << 10;  // as much as the transport sends in one go
constexpr std::size_t kBlock = 2048;               // numbers
constexpr std::size_t kCached = 4U << 20;  // numbers of a round that may still be in a cache at its end
constexpr std::size_t kAlignedFloats = kAlignment / sizeof(float);

std::int64_t hops_of(int members) {
  return 2 * (std::int64_t{members} - 1);
}

// At least a block of what is encoded: many members may have more under way for that than is planned.
std::uint64_t piece_bytes(int members, std::uint64_t under_way, const Codec* codec) {
  const std::uint64_t share = under_way / static_cast<std::uint64_t>(hops_of(members));
  const std::uint64_t least = codec == nullptr ? kAlignment : codec->block_bytes(codec->block());
  return std::max(std::min(kPieceBytes, share / kAlignment * kAlignment), least);
}

// Whose pieces may be under way on a link.
std::int64_t ticks_under_way(int members, std::uint64_t under_way, const Codec* codec) {
  const auto pieces = static_cast<std::int64_t>(under_way / piece_bytes(members, under_way, codec));
  return std::max<std::int64_t>(1, pieces / hops_of(members));
}

// D of the header.
std::int64_t ticks_ahead(int members, std::uint64_t under_way, const Codec* codec) {
  return std::max<std::int64_t>(1, ticks_under_way(members, under_way, codec) / 2);
}

// Numbers that lie in a row and travel in the same way.
struct Run {
  std::size_t tensor;  // that they are of
  std::span<float> numbers;
  std::span<float> residual;  // empty: they travel as they are

  bool is_encoded() const { return !residual.empty(); }
};

// What travels in one message, where all members cut the same.
struct Piece {
  std::vector<Run> runs;
  std::uint64_t bytes = 0;
};

// The parts of one number, of all tensors, cut into pieces of so many bytes at most.
class Strip {
 public:
  Strip(std::span<const RingTensor> tensors, int part, int members, std::uint64_t most_of_piece,
        const Codec* codec)
      : most_(most_of_piece), codec_(codec) {
    for (const bool is_encoded : {false, true}) {  // so that floats are aligned
      for (std::size_t i = tensors.size(); i-- > 0;) {
        const RingTensor& tensor = tensors[i];
        const auto [begin, end] = ring_part(tensor.numbers.size(), part, members);
        if (tensor.residual.empty() == is_encoded || begin == end) continue;
        add({i, tensor.numbers.subspan(begin, end - begin),
             is_encoded ? tensor.residual.subspan(begin, end - begin) : std::span<float>()});
      }
    }
  }
  std::vector<Piece> pieces;

 private:
  void add(const Run& run) {
    const std::size_t block = run.is_encoded() ? codec_->block() : 1;
    const std::uint64_t block_bytes = run.is_encoded() ? codec_->block_bytes(block) : sizeof(float);
    for (std::size_t begin = 0; begin < run.numbers.size();) {
      if (pieces.empty() || pieces.back().bytes + block_bytes > most_) pieces.emplace_back();
      Piece& piece = pieces.back();
      const std::uint64_t blocks = (most_ - piece.bytes) / block_bytes;
      const std::size_t count = std::min<std::uint64_t>(run.numbers.size() - begin, blocks * block);
      piece.runs.push_back({run.tensor, run.numbers.subspan(begin, count),
                            run.is_encoded() ? run.residual.subspan(begin, count) : std::span<float>()});
      piece.bytes += run.is_encoded() ? codec_->bytes(count) : count * sizeof(float);
      begin += count;
    }
  }

  const std::uint64_t most_;
  const Codec* const codec_;
};

// One call of RingAllReduce::sum().
class Round {
 public:
  Round(Link& link, int rank, int members, std::uint64_t under_way, std::int64_t number,
        std::span<const RingTensor> tensors, Codec* codec, const RingAllReduce::Await& await)
      : link_(link),
        rank_(rank),
        members_(members),
        ahead_(ticks_ahead(members, under_way, codec)),
        number_(number),
        tensors_(tensors),
        codec_(codec),
        await_(await) {
    for (const RingTensor& tensor : tensors) numbers_ += tensor.numbers.size();
    for (int part = 0; part < members; ++part) {
      strips_.push_back(
          std::move(Strip(tensors, part, members, piece_bytes(members, under_way, codec), codec).pieces));
      pieces_ = std::max(pieces_, static_cast<std::int64_t>(strips_.back().size()));
    }
    if (codec != nullptr) {
      sum_.resize(codec->block());
      decoded_.resize(codec->block());
    }
  }

  // Of the pieces of a tick, the one that has made most hops goes first: others wait for it.
  std::uint64_t run() {
    const std::int64_t hops = hops_of(members_);
    for (std::int64_t tick = 0; tick < pieces_ + hops * ahead_; ++tick) {
      for (std::int64_t hop = hops; hop >= 0; --hop) {
        const std::int64_t piece = tick - hop * ahead_;
        if (piece >= 0 && piece < pieces_) pass_on(piece, hop);
      }
    }
    return bytes_sent_;
  }

 private:
  // Takes a piece that comes from the member before after so many hops, unless it begins here, and sends it
  // on, unless it ends here.
  void pass_on(std::int64_t number, std::int64_t hop) {
    const std::vector<Piece>& strip = strip_of(hop);
    if (static_cast<std::size_t>(number) >= strip.size()) return;
    const Piece& piece = strip[number];
    const TensorType type{DType::kU8, Shape{static_cast<std::int64_t>(piece.bytes)}};
    MessageBytes bytes = hop == 0 ? link_.make_bytes(piece.bytes)
                                  : link_.receive_bytes(rank_before(), key(number, hop - 1), type);
    std::byte* at = bytes.get();
    for (const Run& run : piece.runs) {
      if (hop < members_) make_ready(run);
      if (run.is_encoded()) {
        at = pass_encoded(run, at, hop);
      } else {
        pass_plain(run.numbers, {reinterpret_cast<float*>(at), run.numbers.size()}, hop);
        at += run.numbers.size_bytes();
      }
    }
    if (hop == hops_of(members_)) return;
    link_.send_bytes((rank_ + 1) % members_, key(number, hop), type, std::move(bytes));
    bytes_sent_ += piece.bytes;
  }

  // Once a round, before a run takes part in its sum.
  void make_ready(const Run& run) const {
    const RingTensor& tensor = tensors_[run.tensor];
    if (!tensor.is_ready) await_(run.tensor);
    if (tensor.factor != 1) arithmetic_.scale(run.numbers.data(), tensor.factor, run.numbers.size());
  }

  // By blocks, so that a sum is copied while it is in the nearest cache.
  void pass_plain(std::span<float> own, std::span<float> passing, std::int64_t hop) const {
    for (; !own.empty(); own = own.subspan(std::min(kBlock, own.size()))) {
      const std::span<float> to = own.first(std::min(kBlock, own.size()));
      const std::span<float> there = passing.first(to.size());
      if (hop == 0) std::ranges::copy(to, there.begin());
      if (hop > 0 && hop < members_) arithmetic_.add(there.data(), to.data(), to.size());
      if (hop >= members_ - 1) put(there, to);
      passing = passing.subspan(to.size());
    }
  }

  // GCC 12's std::ranges::copy takes constant elements one by one, std::copy as one block.
  void put(std::span<const float> sum, std::span<float> own) const {
    if (numbers_ < kCached) {
      std::copy(sum.begin(), sum.end(), own.begin());
    } else {
      copy_past_caches(own.data(), sum.data(), sum.size());
    }
  }

  // Where the next run begins.
  std::byte* pass_encoded(const Run& run, std::byte* passing, std::int64_t hop) {
    for (std::size_t begin = 0; begin < run.numbers.size(); begin += codec_->block()) {
      const std::size_t count = std::min(codec_->block(), run.numbers.size() - begin);
      const std::span<float> own = run.numbers.subspan(begin, count);
      if (hop < members_) {
        add_block(own, run.residual.subspan(begin, count), passing, hop);
      } else {
        codec_->decode(passing, own);
      }
      passing += codec_->block_bytes(count);
    }
    return passing;
  }

  // Puts in the place of a sum the one with this member's numbers.
  void add_block(std::span<float> own, std::span<float> residual, std::byte* passing, std::int64_t hop) {
    const std::span<float> sum = std::span(sum_).first(own.size());
    const std::span<float> decoded = std::span(decoded_).first(own.size());
    if (hop == 0) {
      std::ranges::copy(own, sum.begin());
    } else {
      codec_->decode(passing, sum);
      arithmetic_.add(sum.data(), own.data(), own.size());
    }
    arithmetic_.add(sum.data(), residual.data(), own.size());
    codec_->encode(sum, passing);
    codec_->decode(passing, decoded);
    for (std::size_t i = 0; i < own.size(); ++i) residual[i] = sum[i] - decoded[i];
    if (hop == members_ - 1) std::ranges::copy(decoded, own.begin());
  }

  // That of which a piece is here after so many hops.
  const std::vector<Piece>& strip_of(std::int64_t hop) const {
    const std::int64_t part = (rank_ - hop) % members_;
    return strips_[part < 0 ? part + members_ : part];
  }
  MessageKey key(std::int64_t piece, std::int64_t hop) const {
    return {.kind = MessageKind::kAverage,
            .step = number_,
            .micro_batch = static_cast<std::int32_t>(piece * hops_of(members_) + hop)};
  }
  int rank_before() const { return (rank_ + members_ - 1) % members_; }

  Link& link_;
  const int rank_, members_;
  const std::int64_t ahead_;  // D of the header
  const std::int64_t number_;
  const std::span<const RingTensor> tensors_;
  Codec* const codec_;
  const RingAllReduce::Await& await_;
  const Arithmetic& arithmetic_ = host_processor().arithmetic();
  std::vector<std::vector<Piece>> strips_;  // by part
  std::vector<float> sum_, decoded_;        // of a block
  std::size_t numbers_ = 0;                 // of all tensors
  std::int64_t pieces_ = 0;                 // of the strip that has most
  std::uint64_t bytes_sent_ = 0;
};

std::uint64_t encoded_bytes(std::uint64_t numbers, const Compression& compression) {
  const auto codec = make_codec(compression);
  return codec == nullptr ? numbers * sizeof(float) : codec->bytes(numbers);
}

}  // namespace

// Where all members wait for room to send, one of their links has no more than what D ticks bring, so that as
// much has to have room. A strip
// has an even share of each tensor, but for the alignment of its parts and a block that is not full.
RingTraffic ring_traffic(const RingLoad& plain, const RingLoad& encoded, const Compression& compression,
                         int members, std::uint64_t under_way) {
  if (members == 1) return {};
  const auto share = [&](std::uint64_t all) { return all / static_cast<std::uint64_t>(members) + 1; };
  const auto codec = make_codec(compression);
  const std::uint64_t block = codec == nullptr ? 0 : codec->block_bytes(codec->block());
  const std::uint64_t strip = share(plain.numbers) * sizeof(float) +
                              encoded_bytes(share(encoded.numbers), compression) +
                              (plain.tensors + encoded.tensors) * 2 * kAlignment + encoded.tensors * block;
  const std::uint64_t piece = piece_bytes(members, under_way, codec.get());
  const std::uint64_t ticks =
      std::min<std::uint64_t>(static_cast<std::uint64_t>(ticks_under_way(members, under_way, codec.get())),
                              (strip + piece - 1) / piece);
  return {.message_bytes = std::min(strip, piece),
          .messages = ticks * static_cast<std::uint64_t>(hops_of(members)) + 1};
}

double ring_bytes(const RingLoad& plain, const RingLoad& encoded, const Compression& compression,
                  int members) {
  const std::uint64_t bytes = plain.numbers * sizeof(float) + encoded_bytes(encoded.numbers, compression);
  return static_cast<double>(hops_of(members)) / members * static_cast<double>(bytes);
}

RingAllReduce::RingAllReduce(Link& link, int rank, int members, const Compression& compression,
                             std::uint64_t under_way)
    : link_(link), rank_(rank), members_(members), under_way_(under_way), codec_(make_codec(compression)) {
  ROOKERY_CHECK(members >= 1 && rank >= 0 && rank < members, "rank {} of {}", rank, members);
}

void RingAllReduce::sum(std::int64_t round, std::span<const RingTensor> tensors, const Await& await) {
  if (members_ > 1) {
    bytes_sent_ += Round(link_, rank_, members_, under_way_, round, tensors, codec_.get(), await).run();
    return;
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].is_ready) await(i);
    if (tensors[i].factor != 1)
      host_processor().arithmetic().scale(tensors[i].numbers.data(), tensors[i].factor,
                                          tensors[i].numbers.size());
  }
}

std::pair<std::size_t, std::size_t> ring_part(std::size_t elements, int part, int members) {
  const auto border = [&](int s) {
    const std::size_t even = elements * static_cast<std::size_t>(s) / static_cast<std::size_t>(members);
    return s == members ? elements : even / kAlignedFloats * kAlignedFloats;
  };
  return {border(part), border(part + 1)};
}

}  // namespace rookery
