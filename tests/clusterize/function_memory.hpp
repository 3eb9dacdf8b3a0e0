// The memory of a model's stages as a test says it is.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "clusterize/costs/memory_model.hpp"

namespace rookery {

class FunctionMemory final : public MemoryModel {
 public:
  using Bytes = std::function<std::int64_t(const StageRange&)>;
  explicit FunctionMemory(Bytes bytes) : bytes_(std::move(bytes)) {}
  std::int64_t bytes(const StageRange& range) const override { return bytes_(range); }

 private:
  const Bytes bytes_;
};

inline std::shared_ptr<const MemoryModel> memory_by(FunctionMemory::Bytes bytes) {
  return std::make_shared<FunctionMemory>(std::move(bytes));
}

}  // namespace rookery
