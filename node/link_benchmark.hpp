// How fast two machines talk to each other: one answers (LinkBenchmarkServer), the other measures. Messages
// and limits: PROTOCOL.md, "Benchmarks".
#pragma once

#include <chrono>
#include <memory>
#include <string>

namespace rookery {

struct LinkMeasure {
  double latency_ms = 0;                  // one way, from one provider's arithmetic to the other's
  double to_mbps = 0;                     // Mbit/s, towards the other
  double from_mbps = 0;                   // and back
  double processor_seconds_per_byte = 0;  // of this machine, either way
};

// Answers one peer at a time; others are told to come again. What is no request is dropped with a warning,
// and a peer that goes on for longer than a minute has to let others in. One thread.
class LinkBenchmarkServer {
 public:
  // Listens at "HOST:PORT"; port 0: any free one. TransportError when that cannot be.
  explicit LinkBenchmarkServer(const std::string& address);
  ~LinkBenchmarkServer();

  std::string address() const;
  // Until `stop_descriptor` becomes readable.
  void serve(int stop_descriptor);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct LinkBenchmarkOptions {
  double seconds = 3;  // for all that is measured
  std::chrono::milliseconds answer{
      3'000};  // the server's first word; and any later one takes no longer than ten times
  std::chrono::milliseconds busy{120'000};  // while it measures with others
};

// With the server at `address`. TransportError saying what did not come in which time; Interrupted when a
// stop signal comes.
LinkMeasure measure_link(const std::string& address, const LinkBenchmarkOptions& options = {});

// Seconds from send() of one ZmqLink to receive() of another, both in this process, of what stages send each
// other in a step, in small: half of the way there and back; and the same of a message between a client and a
// server of this benchmark. Their difference is what a provider's threads add.
struct HopTimes {
  double provider = 0;
  double benchmark = 0;
};
HopTimes measure_hops();

}  // namespace rookery
