// What was found out for some numbers of threads, and is taken to hold for those between.
#pragma once

#include <map>

namespace rookery {

template <typename T>
using ByThreads = std::map<int, T>;  // by the number of threads

// What holds for `threads` of them: of the largest number that is no more, else of the smallest. There is
// one.
template <typename T>
const T& of_threads(const ByThreads<T>& all, int threads) {
  auto after = all.upper_bound(threads);
  return after == all.begin() ? after->second : (--after)->second;
}

}  // namespace rookery
