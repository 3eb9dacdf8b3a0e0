// Messages that share connections, as a fluid: every way from one connection to another carries its messages
// one after the other, and all ways that carry one have their max-min fair share of the connections that they
// use (D. Bertsekas, R. Gallager, "Data Networks", 6.5.2). A connection is as fast in as it is out.
#pragma once

#include <cstddef>
#include <deque>
#include <limits>
#include <vector>

namespace rookery {

// From one connection to another, or back to itself.
struct FlowWay {
  int from = 0;
  int to = 0;
  double latency = 0;           // seconds from the last byte's departure to its arrival
  double bytes_per_second = 0;  // alone
};

class FlowNetwork {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // `connections`: bytes per second of each, in each direction. All speeds are above 0 and finite.
  FlowNetwork(std::vector<double> connections, std::vector<FlowWay> ways);

  // Messages are numbers of the caller's. Time never runs backwards, and send() comes no later than next().
  void send(double now, std::size_t way, int message, double bytes);
  // When the next message has left its sender altogether; kNever with nothing under way.
  double next();
  struct Departure {
    int message = 0;
    std::size_t way = 0;
    double begin = 0;  // of its transmission
  };
  // That message, which makes room for the one behind it. Of several at once, that of the way that began
  // to carry first.
  Departure take();

 private:
  struct Message {
    int id;
    double bytes;
  };
  struct Flow {
    std::deque<Message> queue;  // the first is under way
    double left = 0;            // bytes of it, at `since`
    double since = 0;
    double begin = 0;
    double rate = 0;
    double done = kNever;
  };

  void start(std::size_t way);
  void share();
  double share_of(const FlowWay& way) const;

  std::vector<FlowWay> ways_;
  std::vector<double> connections_;
  std::vector<Flow> flows_;          // by way
  std::vector<std::size_t> active_;  // ways that carry a message
  double now_ = 0;
  bool changed_ = false;  // do shares have to be found again?
  // While shares are found, by connection: what is left of it, and for how many ways.
  std::vector<double> out_left_, in_left_;
  std::vector<int> out_ways_, in_ways_;
  std::vector<std::size_t> open_;
};

}  // namespace rookery
