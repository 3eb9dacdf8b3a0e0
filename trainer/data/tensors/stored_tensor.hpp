// Tensors in files, of which samples are read one by one, so that they may be larger than memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "models/tensor/tensor.hpp"
#include "trainer/data/dataset.hpp"
#include "trainer/storage/random_file.hpp"

namespace rookery {

// Samples along the first dimension. Any number of threads at once.
struct StoredTensor {
  using Convert = void (*)(std::span<const std::byte> from, std::byte* to, float scale);

  TensorType type;  // as it is handed out
  SharedFile file;
  std::uint64_t offset = 0;  // of the first number
  std::size_t number_bytes = 0;
  Convert convert = nullptr;  // nothing: handed out as it is stored
  float scale = 1;

  std::size_t sample_bytes() const { return type.bytes() / static_cast<std::size_t>(type.shape[0]); }
  // All numbers of the samples from `first` on. DataError, which names the sample that has a number that is
  // not finite.
  void read(std::int64_t first, std::int64_t samples, std::span<std::byte> into) const;
};

using StoredTensors = std::map<std::string, StoredTensor>;

// Tensors of `cache_mib` or less together are read whole at once, others sample by sample when they are
// wanted, of a file of this machine: what lies far is copied. DataError naming data set and tensor, where one
// has no samples, another number of them, or a number that is not finite.
std::unique_ptr<Dataset> dataset_of(const std::string& name, StoredTensors tensors,
                                    const ReadingSettings& reading);

}  // namespace rookery
