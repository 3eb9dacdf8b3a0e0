#include "trainer/agreement.hpp"

#include <algorithm>
#include <utility>

namespace rookery {
namespace {

MessageKey agreement(std::int64_t step, const std::string& what) {
  return {.kind = MessageKind::kAgreement, .step = step, .edge = what};
}

// `Number` is double, or const double.
template <typename Number>
auto view_of(std::vector<Number>& numbers) {
  return TensorView{{DType::kF64, Shape{std::ssize(numbers)}}, reinterpret_cast<std::byte*>(numbers.data())};
}

}  // namespace

// In each of clusters - 1 rounds every Root hands on what it got in the round before.
std::vector<std::vector<double>> ClusterRoots::all_gather(std::int64_t step, const std::string& what,
                                                          std::vector<double> own) {
  std::vector<std::vector<double>> all(clusters_, std::vector<double>(own.size()));
  const auto of = [&](int cluster) -> std::vector<double>& { return all[(cluster + clusters_) % clusters_]; };
  of(cluster_) = std::move(own);
  for (int round = 0; round + 1 < clusters_; ++round) {
    const MessageKey key{
        .kind = MessageKind::kClusterNumbers, .step = step, .micro_batch = round, .edge = what};
    const auto sent = link_.begin_send(next(), key, view_of(of(cluster_ - round)));
    link_.receive(before(), key, view_of(of(cluster_ - round - 1)));
    sent->wait();
  }
  return all;
}

std::int64_t Agreement::told_by_root(std::int64_t step, const std::string& what, std::int64_t number) {
  if (roots_ != nullptr)
    number = static_cast<std::int64_t>(
        roots_->all_gather(step, what, {static_cast<double>(number)}).front().front());
  return told_in_pipeline(agreement(step, what), number);
}

std::int64_t Agreement::told_in_pipeline(const MessageKey& key, std::int64_t number) {
  if (stage_ != 0) return static_cast<std::int64_t>(receive_number(link_, 0, key));
  for (int to = 1; to < stages_; ++to) send_number(link_, to, key, static_cast<double>(number));
  return number;
}

std::int64_t Agreement::least_of_all(std::int64_t step, const std::string& what, std::int64_t number) {
  const MessageKey key = agreement(step, what);
  if (stage_ != 0) {
    send_number(link_, 0, key, static_cast<double>(number));
    return told_in_pipeline(key, number);
  }
  for (int from = 1; from < stages_; ++from)
    number = std::min(number, static_cast<std::int64_t>(receive_number(link_, from, key)));
  if (roots_ != nullptr) {
    for (const auto& of_cluster : roots_->all_gather(step, what, {static_cast<double>(number)}))
      number = std::min(number, static_cast<std::int64_t>(of_cluster.front()));
  }
  return told_in_pipeline(key, number);
}

std::vector<double> Agreement::sum_of_leaves(std::int64_t step, const std::string& what,
                                             std::vector<double> numbers) {
  const MessageKey key{.kind = MessageKind::kClusterNumbers, .step = step, .edge = what};
  const bool is_root = stage_ == 0;
  const bool is_leaf = stage_ == stages_ - 1;
  if (is_leaf && !is_root) {
    link_.send(0, key, view_of(numbers));
    link_.receive(0, key, view_of(numbers));
  } else if (is_root) {
    if (!is_leaf) link_.receive(stages_ - 1, key, view_of(numbers));
    if (roots_ != nullptr) {
      const auto all = roots_->all_gather(step, what, numbers);
      numbers = all.front();
      for (std::size_t cluster = 1; cluster < all.size(); ++cluster)
        for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += all[cluster][i];
    }
    if (!is_leaf) link_.send(stages_ - 1, key, view_of(numbers));
  }
  return numbers;
}

}  // namespace rookery
