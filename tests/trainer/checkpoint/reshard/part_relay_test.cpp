#include "trainer/checkpoint/reshard/part_relay.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "models/base/files/files.hpp"
#include "tests/support/on_all_nodes.hpp"
#include "tests/support/scratch_folder.hpp"
#include "trainer/checkpoint/reshard/pieces.hpp"

namespace rookery {
namespace {

namespace fs = std::filesystem;

const std::vector<int> kStages{2, 3, 1, 1};  // of the clusters

// Of clusters in which this stage has the part, or none, with as many bytes.
class RelayedPart {
 public:
  RelayedPart(std::vector<int> holders, std::size_t bytes)
      : holders_(std::move(holders)), bytes_(bytes, 'x') {
    for (std::size_t i = 0; i < bytes; ++i) bytes_[i] = static_cast<char>(i * 31 + i / 255);
    for (std::size_t cluster = 0; cluster < holders_.size(); ++cluster) {
      if (holders_[cluster] == kNone) continue;
      make_directories(path(cluster, holders_[cluster]).parent_path());
      write_file(path(cluster, holders_[cluster]), bytes_);
    }
    on_all<int>(kStages, [&](Agreement& agreement, int cluster) {
      PartRoute route{.path = path(static_cast<std::size_t>(cluster), agreement.stage()),
                      .name = "part",
                      .cluster = cluster};
      for (const int holder : holders_) route.lacks.push_back(holder == kNone);
      const int own = holders_[cluster];
      if (own != kNone) route.holder = own;
      relay_part(route, agreement);
      return 0;
    });
  }

  void expect_is_everywhere() const {
    for (std::size_t cluster = 0; cluster < holders_.size(); ++cluster) {
      const int place = holders_[cluster] == kNone ? 0 : holders_[cluster];
      for (int stage = 0; stage < kStages[cluster]; ++stage) {
        const fs::path own = path(cluster, stage);
        ASSERT_EQ(fs::exists(own), stage == place) << own;
        EXPECT_TRUE(stage != place || read_file(own, 1U << 20) == bytes_) << own;
      }
    }
  }

  static constexpr int kNone = -1;

 private:
  fs::path path(std::size_t cluster, int stage) const {
    return folder_.path() / fmt::format("{}_{}", cluster, stage) / "checkpoints" / "part";
  }

  ScratchFolder folder_;
  std::vector<int> holders_;
  std::string bytes_;
};

TEST(PartRelay, GivesItToEveryClusterThatLacksIt) {
  constexpr int kNone = RelayedPart::kNone;
  for (const std::vector<int>& holders : {std::vector<int>{0, kNone, kNone, kNone},
                                          {1, kNone, kNone, kNone},
                                          {kNone, 2, kNone, kNone},
                                          {kNone, 0, 0, kNone},
                                          {kNone, kNone, kNone, 0},
                                          {1, kNone, 0, kNone},
                                          {1, 2, 0, 0}})
    RelayedPart(holders, 1000).expect_is_everywhere();
}

TEST(PartRelay, OfAnySize) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{kCheckpointPieceBytes},
                                  std::size_t{kCheckpointPieceBytes + 1}, std::size_t{200'000}})
    RelayedPart({RelayedPart::kNone, 1, RelayedPart::kNone, 0}, bytes).expect_is_everywhere();
}

}  // namespace
}  // namespace rookery
