#include "trainer/encoding/reconstructions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "models/base/check.hpp"

namespace rookery {
namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

// Calls work(value, numbers of a sample, the stage's way to or from it) for what travels by difference.
template <typename Work>
void for_each_delta(const Stage& stage, const EdgeEncoding& encoding, Work work) {
  if (!encoding.has_deltas()) return;
  const std::vector<TensorType> of_any = batch_types(stage.graph);
  const std::vector<TensorType> of_one = stage.graph.types(1);
  const auto look_at = [&](const std::string& value, Hop hop) {
    const ValueId id = stage.graph.at(value);
    if (of_any[id].shape.rank() == 0 || of_any[id].shape[0] != kBatch) return false;
    if (!encoding.is_delta(hop, value, of_one[id])) return false;
    work(value, of_one[id].shape.elements(), hop);
    return true;
  };
  for (const StageInput& input : stage.inputs)
    if (input.from != kNoStage) look_at(input.value, {input.from, stage.index});
  for (const StageOutput& output : stage.outputs) {
    for (const int to : output.to)
      if (look_at(output.value, {stage.index, to})) break;
  }
}

// Of so many numbers of a sample; of `again` samples twice.
std::int64_t bytes_of(std::int64_t numbers, const EdgeEncoding& encoding, std::int64_t again) {
  const auto order = encoding.samples() * static_cast<std::int64_t>(sizeof(std::int64_t));
  const std::int64_t rows = encoding.samples() + again;
  return numbers == 0 ? 0 : rows * numbers * static_cast<std::int64_t>(sizeof(float)) + order;
}

std::span<float> row_of(Tensor& samples, std::int64_t place) {
  const auto numbers = static_cast<std::size_t>(samples.type().shape[1]);
  return samples.as<float>().subspan(static_cast<std::size_t>(place) * numbers, numbers);
}

// Both ends do so with the same bytes.
void add_decoded(const Codec& codec, const std::byte* bytes, std::span<float> row) {
  std::vector<float> decoded(std::min(codec.block(), row.size()));
  for_each_block(codec, row, bytes, [&](std::span<float> block, const std::byte* from) {
    const std::span<float> difference = std::span(decoded).first(block.size());
    codec.decode(from, difference);
    for (std::size_t i = 0; i < block.size(); ++i) block[i] += difference[i];
  });
}

void encode_difference(Codec& codec, std::span<const float> numbers, std::span<const float> row,
                       std::byte* bytes) {
  std::vector<float> difference(std::min(codec.block(), row.size()));
  for_each_block(codec, numbers, bytes, [&](std::span<const float> block, std::byte* to) {
    const auto begin = static_cast<std::size_t>(block.data() - numbers.data());
    for (std::size_t i = 0; i < block.size(); ++i) difference[i] = block[i] - row[begin + i];
    codec.encode(std::span(difference).first(block.size()), to);
  });
}

// Nothing could be added to what is no number: it is sent as if for the first time.
void forget_what_is_no_number(std::span<float> row) {
  if (std::ranges::any_of(row, [](float number) { return std::isnan(number); })) row.front() = kNone;
}

}  // namespace

Reconstructions::Reconstructions(const Stage& stage, const EdgeEncoding& encoding, SamplePlaces places,
                                 int again)
    : places_(std::move(places)), again_(again), first_(make_codec(parse_compression(kFirstOfDelta))) {
  for_each_delta(stage, encoding, [&](const std::string& value, std::int64_t numbers, Hop hop) {
    const Compression compression = encoding.of_activation(hop, value, {DType::kF32, Shape{1, numbers}});
    KeptValue made{.differences = make_codec(compression),
                   .samples = {DType::kF32, {encoding.samples(), numbers}}};
    std::ranges::fill(made.samples.as<float>(), kNone);
    values_.emplace(value, std::move(made));
  });
}

std::int64_t Reconstructions::bytes(const Stage& stage, std::int64_t micro_batch,
                                    const EdgeEncoding& encoding, int again) {
  std::int64_t numbers = 0;
  for_each_delta(stage, encoding, [&](const std::string& /*value*/, std::int64_t of_sample, Hop /*hop*/) {
    numbers += of_sample;
  });
  return bytes_of(numbers, encoding, again * micro_batch);
}

std::int64_t Reconstructions::most_bytes(const Graph& model, std::int64_t batch,
                                         const EdgeEncoding& encoding) {
  if (!encoding.has_deltas()) return 0;
  std::int64_t numbers = 0;
  const std::vector<TensorType> of_one = model.types(1);
  for (std::size_t id = 0; id < of_one.size(); ++id) {
    const Value& value = model.values()[id];
    if (value.kind == ValueKind::kActivation && encoding.is_delta({}, value.name, of_one[id]))
      numbers += of_one[id].shape.elements();
  }
  return bytes_of(numbers, encoding, batch);
}

std::map<std::string, TensorView> Reconstructions::state() {
  std::map<std::string, TensorView> state;
  for (auto& [name, value] : values_) state.emplace(reconstruction_key(name), value.samples.view());
  return state;
}

std::span<const std::int64_t> Reconstructions::places_of(const MessageKey& key, const TensorType& type) {
  const std::span<const std::int64_t> places = places_.of(key.step, key.micro_batch);
  ROOKERY_CHECK(std::ssize(places) == type.shape[0], "{} is {}, of {} samples", to_string(key),
                type.to_string(), places.size());
  return places;
}

void Reconstructions::keep_or_take_back(KeptValue& value, const MessageKey& key,
                                        std::span<const std::int64_t> places) {
  const bool is_again = key.kind == MessageKind::kForwardActivationAgain;
  if (!is_again && key.micro_batch >= again_) return;
  if (std::exchange(value.step, key.step) != key.step) value.before.clear();
  const auto found = value.before.find(key.micro_batch);
  ROOKERY_CHECK(!is_again || found != value.before.end(), "{}: nothing to take back", to_string(key));
  const auto numbers = static_cast<std::size_t>(value.samples.type().shape[1]);
  std::vector<float>& before = is_again ? found->second : value.before[key.micro_batch];
  before.resize(places.size() * numbers);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::span<float> row = row_of(value.samples, places[i]);
    const std::span<float> kept = std::span(before).subspan(i * numbers, numbers);
    is_again ? std::ranges::copy(kept, row.begin()) : std::ranges::copy(row, kept.begin());
  }
}

template <typename Work>
void Reconstructions::for_each_row(const MessageKey& key, const TensorType& type, Work work) {
  KeptValue& value = values_.at(key.edge);
  for (const std::int64_t place : places_of(key, type)) {
    const std::span<float> row = row_of(value.samples, place);
    const bool is_first = std::isnan(row.front());
    work(is_first ? *first_ : *value.differences, row, is_first);
  }
}

TensorType Reconstructions::begin(const MessageKey& key, const TensorType& type) {
  keep_or_take_back(values_.at(key.edge), key, places_of(key, type));
  std::size_t bytes = 0;
  for_each_row(key, type, [&](const Codec& codec, std::span<const float> row, bool /*is_first*/) {
    bytes += codec.bytes(row.size());
  });
  return {DType::kU8, Shape{static_cast<std::int64_t>(bytes)}};
}

void Reconstructions::encode(const MessageKey& key, ConstTensorView tensor, std::byte* bytes) {
  std::span<const float> left = tensor.as<float>();
  for_each_row(key, tensor.type, [&](Codec& codec, std::span<float> row, bool is_first) {
    if (is_first) std::ranges::fill(row, 0.0F);
    encode_difference(codec, left.first(row.size()), row, bytes);
    add_decoded(codec, bytes, row);
    forget_what_is_no_number(row);
    left = left.subspan(row.size());
    bytes += codec.bytes(row.size());
  });
}

void Reconstructions::decode(const MessageKey& key, const std::byte* bytes, TensorView into) {
  std::span<float> left = into.as<float>();
  for_each_row(key, into.type, [&](const Codec& codec, std::span<float> row, bool is_first) {
    if (is_first) std::ranges::fill(row, 0.0F);
    add_decoded(codec, bytes, row);
    std::ranges::copy(row, left.begin());
    forget_what_is_no_number(row);
    left = left.subspan(row.size());
    bytes += codec.bytes(row.size());
  });
}

int sent_again(const ScheduleSettings& schedule, int stage, int stages, int micro_batches) {
  int most = 0;
  for (int each = 0; each <= stage && schedule.updates_ahead; ++each)
    most = std::max(most, forwards_ahead(schedule, each, stages, micro_batches));
  return most;
}

}  // namespace rookery
