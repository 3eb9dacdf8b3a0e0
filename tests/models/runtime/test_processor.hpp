// The processor that the tests of this folder run on. They are built twice: for the host, and for a device
// whose memory the host cannot read.
#pragma once

#include "tests/support/guarded_device.hpp"

namespace rookery {

inline const Processor& test_processor() {
#ifdef ROOKERY_TEST_GUARDED_DEVICE
  return test::guarded_processor();
#else
  return host_processor();
#endif
}

}  // namespace rookery
