// Measures how fast this machine trains: the rates of the kinds of work that training is made of, sustained,
// by our own kernels on graphs of a fixed size. The figure that pools give as `gflops`, so that times
// measured on one machine say what others will take.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace rookery {

struct MachineSpeed {
  double products_gflops = 0;      // a layer of 1024 x 1024: forward and both gradients
  double convolutions_gflops = 0;  // 3 x 3 convolutions: forward and both gradients
  double elementwise_gbps = 0;     // GB/s: sums, ReLU, batch norm, and their gradients
  double update_gbps = 0;          // GB/s: Adam
  double gflops = 0;               // all of that, as it is mixed in a residual network
  double processors = 0;           // that this process had meanwhile, on average: less than one under a quota
};

// Measures on the threads that are set (kernels/threads.hpp), and takes about 250 MB as long as it lives. The
// means of wall time: a limit on this process counts, and so does what else runs.
class SpeedMeter {
 public:
  SpeedMeter();
  ~SpeedMeter();
  SpeedMeter(const SpeedMeter&) = delete;
  SpeedMeter& operator=(const SpeedMeter&) = delete;

  // For some `seconds`; `doing` is told what is being measured.
  void run(double seconds, const std::function<void(const std::string&)>& doing = {});
  // The rates over all runs.
  MachineSpeed speed() const;

 private:
  struct Suite;
  std::unique_ptr<Suite> suite_;
  double seconds_ = 0;
  double processor_seconds_ = 0;
};

// Time on processors of all threads of this process since it began.
double processor_seconds();

}  // namespace rookery
