#include "trainer/data/generated.hpp"

#include "models/base/check.hpp"

namespace rookery {

void GeneratedDataset::gather(const std::string& name, std::span<const std::int64_t> ids,
                              TensorView into) const {
  const auto found = tensors_.find(name);
  ROOKERY_CHECK(found != tensors_.end(), "the data set has no tensor '{}'", name);
  const TensorType one{found->second.dtype, found->second.shape.with_batch(1)};
  ROOKERY_CHECK(into.type.dtype == one.dtype && into.bytes().size() == ids.size() * one.bytes(),
                "{} samples of {} into {}", ids.size(), one.to_string(), into.type.to_string());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ROOKERY_CHECK(ids[i] >= 0 && ids[i] < samples_, "sample {} of {}", ids[i], samples_);
    draw(ids[i], name, {one, into.data + i * one.bytes()});
  }
}

}  // namespace rookery
