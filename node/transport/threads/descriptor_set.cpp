#include "node/transport/threads/descriptor_set.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"

namespace rookery {

DescriptorSet::DescriptorSet() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw TransportError(fmt::format("no epoll descriptor: {}", std::strerror(errno)));
}

void DescriptorSet::assign(std::span<const int> descriptors) {
  for (const int before : descriptors_)
    if (before >= 0) ::epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, before, nullptr);
  descriptors_.assign(descriptors.begin(), descriptors.end());
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    if (descriptors[i] < 0) continue;
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    if (::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, descriptors[i], &event) != 0)
      throw TransportError(
          fmt::format("descriptor {} cannot be waited for: {}", descriptors[i], std::strerror(errno)));
  }
}

void DescriptorSet::remove(int descriptor) {
  const auto found = std::ranges::find(descriptors_, descriptor);
  if (descriptor < 0 || found == descriptors_.end()) return;
  ::epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, descriptor, nullptr);
  *found = -1;
}

std::span<const std::size_t> DescriptorSet::wait(int milliseconds) {
  std::array<epoll_event, kMostAtOnce> events;
  const int count = ::epoll_wait(epoll_.number(), events.data(), events.size(), milliseconds);
  std::size_t found = 0;  // none where a signal came
  while (static_cast<int>(found) < count) {
    readable_[found] = events[found].data.u64;
    ++found;
  }
  return std::span(readable_).first(found);
}

}  // namespace rookery
