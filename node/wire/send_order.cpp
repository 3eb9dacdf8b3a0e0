#include "node/wire/send_order.hpp"

#include <algorithm>

namespace rookery {

void SendOrder::add(int priority, SendStream& stream) {
  const auto after = std::ranges::upper_bound(entries_, priority, {}, &Entry::priority);
  entries_.insert(after, {priority, &stream});
}

void SendOrder::remove(const SendStream& stream) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.stream == &stream; });
}

SendOrder::Entry* SendOrder::choose() {
  std::uint64_t under_way = 0;
  for (const Entry& entry : entries_) under_way += entry.stream->under_way();
  Entry* chosen = nullptr;
  for (Entry& entry : entries_) {
    if (!entry.stream->can_send()) continue;
    const bool is_behind = entry.priority != entries_.front().priority;
    const bool has_waited = is_behind && entry.passed_over + 1 >= kShare;
    if (is_behind && under_way >= kBackgroundWindow && !has_waited) continue;
    const bool takes_its_turn =
        chosen != nullptr && entry.priority == chosen->priority && entry.passed_over > chosen->passed_over;
    if (chosen == nullptr || has_waited || takes_its_turn) chosen = &entry;
  }
  return chosen;
}

const OutgoingChunk* SendOrder::next(Clock::time_point now) {
  if (entries_.size() == 1) return entries_.front().stream->next(now);
  Entry* chosen = choose();
  if (chosen == nullptr) return nullptr;
  chosen->passed_over = 0;
  for (Entry& entry : entries_) {
    if (&entry != chosen && entry.priority >= chosen->priority && entry.stream->can_send())
      ++entry.passed_over;
  }
  return chosen->stream->next(now);
}

}  // namespace rookery
