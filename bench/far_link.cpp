// One of two processes between which tensors go over a long way, as bench/far_link.py makes one.
//
//   build/bin/far_link --rank 0 --addresses 10.78.0.1:8080,10.78.0.2:8080 [--connections N]
//
// Rank 0 sends --count tensors of --mib MiB to rank 1, --at-once of them at a time, as a stage does that has
// so many micro-batches in flight. Rank 1 looks whether they are what was sent, and prints the Mbit/s of
// those after the first quarter, by when TCP knows the way.

#include <algorithm>
#include <boost/algorithm/string.hpp>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <string>
#include <vector>

#include "bench/local_endpoints.hpp"
#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/process/program.hpp"
#include "node/wire/stream.hpp"

namespace rookery {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  int rank = 0;
  std::vector<std::string> addresses;  // by rank
  int connections = 1;
  int at_once = 2;
  std::uint64_t bytes = 0;
  int count = 0;
};

TensorType type_of(const Options& options) {
  return {DType::kU8, {static_cast<std::int64_t>(options.bytes)}};
}

MessageKey key(std::int64_t number) {
  return {.step = number, .edge = "x"};
}

// Of the byte at `at` of every tensor.
std::byte byte_of(std::size_t at) {
  return static_cast<std::byte>(at * 31 + at / 251);
}

// Tensor `number` of all, begun by `begin(number)`; `done(number)` when it is sent or here.
void each(const Options& options, const auto& begin, const auto& done) {
  std::deque<std::unique_ptr<PendingTransfer>> begun;
  int finished = 0;
  const auto finish = [&] {
    begun.front()->wait();
    begun.pop_front();
    done(finished++);
  };
  for (int number = 0; number < options.count; ++number) {
    if (std::ssize(begun) == options.at_once) finish();
    begun.push_back(begin(number));
  }
  while (!begun.empty()) finish();
}

void send(Link& link, const Options& options) {
  std::vector<std::byte> memory(options.bytes);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = byte_of(i);
  each(
      options,
      [&](int number) {
        return link.begin_send(1, key(number), {type_of(options), memory.data()});
      },
      [](int) {});
}

double received_mbps(Link& link, const Options& options) {
  std::vector<std::vector<std::byte>> memory(options.at_once, std::vector<std::byte>(options.bytes));
  const int first = options.count / 4;
  Clock::time_point begin;
  each(
      options,
      [&](int number) {
        return link.begin_receive(0, key(number),
                                  {type_of(options), memory[number % options.at_once].data()});
      },
      [&](int number) {
        if (number == first) begin = Clock::now();
      });
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  for (const std::vector<std::byte>& came : memory) {
    for (std::size_t i = 0; i < came.size(); ++i)
      if (came[i] != byte_of(i)) throw DataError(fmt::format("byte {} came as another", i));
  }
  return 8e-6 * static_cast<double>(options.bytes) * (options.count - 1 - first) / seconds;
}

void run(const Options& options) {
  EndpointOptions own;
  own.node = local_node(options.rank);
  own.address = options.addresses.at(options.rank);
  own.key = {"0123456789abcdef", "0123456789abcdef0123456789abcdef"};
  Endpoint endpoint(own);
  const int other = 1 - options.rank;
  endpoint.start({{.node = local_node(other),
                   .address = options.addresses.at(other),
                   .connections = options.connections}});
  GroupOptions group;
  group.members = {local_node(0), local_node(1)};
  group.max_message_bytes = options.bytes;
  group.send_budget = group.receive_budget = options.at_once * message_cost(options.bytes, kMaxChunkBytes);
  group.buffers = BufferPool(std::vector<std::uint64_t>(options.at_once, options.bytes));
  const auto link = endpoint.open(std::move(group));
  link->join();
  if (options.rank == 0) {
    send(*link, options);
  } else {
    fmt::print("{:.1f}\n", received_mbps(*link, options));
  }
  link->leave();
}

}  // namespace
}  // namespace rookery

int main(int argc, char** argv) {
  namespace po = boost::program_options;
  const rookery::ProgramInfo info{
      .name = "far_link",
      .summary =
          "One of two processes between which tensors go over a long way; bench/far_link.py makes one.",
      .example = "  far_link --rank 0 --addresses 10.78.0.1:8080,10.78.0.2:8080 --connections 4\n"};
  rookery::ProgramOptions options;
  rookery::Options told;
  std::string addresses;
  std::uint64_t mib = 0;
  options.add_options()("rank", po::value(&told.rank)->required(), "0 sends, 1 receives")(
      "addresses", po::value(&addresses)->required(), "of both, with a comma between them")(
      "connections", po::value(&told.connections)->default_value(1), "that share the way")(
      "at-once", po::value(&told.at_once)->default_value(2), "tensors under way")(
      "mib", po::value(&mib)->default_value(16), "of a tensor")(
      "count", po::value(&told.count)->default_value(64), "of tensors");
  return rookery::run_program(info, options, argc, argv, [&](const rookery::ProgramArguments&) {
    boost::split(told.addresses, addresses, [](char c) { return c == ','; });
    told.bytes = mib << 20;
    rookery::run(told);
    return rookery::kDone;
  });
}
