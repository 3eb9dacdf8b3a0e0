// The benchmark measures how fast two machines talk to each other, by TCP alone: link_benchmark_server.hpp
// answers, this measures. Messages and limits: PROTOCOL.md, "Benchmarks".
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace rookery {

struct LinkMeasure {
  double latency_ms = 0;  // one way
  double to_mbps = 0;     // Mbit/s, towards the other
  double from_mbps = 0;   // and back
  // Could the other open a connection to this machine? Nothing where that was not tried.
  std::optional<bool> called_back = std::nullopt;
};

struct LinkBenchmarkOptions {
  double seconds = 3;  // for all that is measured
  // The server's first word; any later one takes no longer than ten times this.
  std::chrono::milliseconds answer{3'000};
  std::chrono::milliseconds busy{120'000};  // while it measures with others
  // Where this machine answers others, who try to connect to it; 0: they do not.
  std::uint16_t own_port = 0;
};

// With the server at `address`. TransportError saying what did not come in which time; Interrupted when a
// stop signal comes.
LinkMeasure measure_link(const std::string& address, const LinkBenchmarkOptions& options = {});

// Does a node_benchmark answer at `address` within the time? TransportError, Interrupted as above.
bool answers(const std::string& address, std::chrono::milliseconds limit);

// What a provider's transport makes of a link, measured between two ZmqLinks of this process.
struct ProviderTransport {
  bool is_local = false;  // between nodes on one machine, which do not use TCP (node/transport/local)
  // Of what stages send each other in a step, one way: besides that of TCP, or where `is_local` all of it.
  double latency_ms = 0;
  double mbps = 0;                        // Mbit/s that it reaches where the network is no limit
  double processor_seconds_per_byte = 0;  // of one side
  // The measure of a link as a provider sees it.
  LinkMeasure over(const LinkMeasure& link) const;
};
ProviderTransport measure_provider_transport();
// Nothing where the kernel does not let processes read each other's memory: they use TCP then.
std::optional<ProviderTransport> measure_local_transport();

}  // namespace rookery
