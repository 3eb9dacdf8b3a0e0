#include "trainer/transfers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "models/graph/passes/loss.hpp"
#include "models/zoo/zoo.hpp"

namespace rookery {
namespace {

// Labels too, which go from the first stage to the last.
TEST(Transfers, MayBeAsManyAsTheEarlierStageHasInFlightWhereMachinesHaveSeveral) {
  Graph model = cnn_net();
  add_loss(model, "mse");
  const std::vector<OpId> positions = cut_positions(model);
  const std::vector<OpId> begins{0, positions.at(1), positions.at(2), positions.at(3)};
  const ScheduleSettings schedule{.name = "zbv"};
  for (const int micro_batches : {1, 12}) {
    for (const Stage& stage : cut(model, begins)) {
      const std::vector<Transfer> all = transfers(stage, 8, schedule, micro_batches);
      EXPECT_FALSE(all.empty());
      for (const Transfer& transfer : all) {
        const int earlier = std::min(stage.index, transfer.peer);
        EXPECT_EQ(transfer.under_way, std::max(2, in_flight(schedule, earlier, stage.count, micro_batches)));
      }
    }
  }
}

}  // namespace
}  // namespace rookery
