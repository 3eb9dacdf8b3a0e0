// Remembers the values of a function, for several threads at once.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <unordered_map>

namespace rookery {

template <typename Key, typename Value, typename Hash>
class Memo {
 public:
  // The value of `key`; compute() runs where it is not known, perhaps in two threads at once. The
  // reference stays valid as long as the memo does.
  template <typename Compute>
  const Value& get(const Key& key, const Compute& compute) {
    Shard& shard = shards_[(Hash()(key) >> 7U) % kShards];
    {
      const std::scoped_lock lock(shard.mutex);
      if (const auto found = shard.values.find(key); found != shard.values.end()) return found->second;
    }
    Value value = compute();
    const std::scoped_lock lock(shard.mutex);
    return shard.values.try_emplace(key, std::move(value)).first->second;
  }

 private:
  static constexpr std::size_t kShards = 64;
  struct Shard {
    std::mutex mutex;
    std::unordered_map<Key, Value, Hash> values;
  };
  std::array<Shard, kShards> shards_;
};

}  // namespace rookery
