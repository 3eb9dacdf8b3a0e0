// The side of node_benchmark that answers. Whoever connects is a stranger, and costs a descriptor and the
// bytes of a header: what he sends is read into memory that all share, and he is not read while he does not
// take his answer.
#pragma once

#include <memory>
#include <string>

namespace rookery {

// Measures with one peer at a time, and tries to connect to it where it asks for that; others are told to
// come again. Who sends what is no request, or is silent for long, is disconnected, and a peer that goes on
// for longer than a minute has to let others in. One thread.
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

}  // namespace rookery
