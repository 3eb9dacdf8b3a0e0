// Vectors that have one element for every value, or every op, of a graph.
#pragma once

#include <cstddef>
#include <vector>

namespace rookery {

// A std::vector whose elements are found by ValueId or OpId, too. An id must be that of a value or op, not
// kNoValue.
template <typename T>
class IdVector : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  using std::vector<T>::operator[];
  using std::vector<T>::at;

  decltype(auto) operator[](int id) { return std::vector<T>::operator[](static_cast<std::size_t>(id)); }
  decltype(auto) operator[](int id) const { return std::vector<T>::operator[](static_cast<std::size_t>(id)); }
  decltype(auto) at(int id) { return std::vector<T>::at(static_cast<std::size_t>(id)); }
  decltype(auto) at(int id) const { return std::vector<T>::at(static_cast<std::size_t>(id)); }
};

}  // namespace rookery
