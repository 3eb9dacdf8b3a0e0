// What a provider saved of its stage, as model_fusion reads it with its fellows.
#include <fstream>

#include "fusion/merge.hpp"
#include "models/base/error.hpp"
#include "tests/fusion/trained_cluster.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rookery;
  static const TrainedCluster cluster;
  std::filesystem::remove(cluster.submodel(1));
  std::ofstream(cluster.submodel(1), std::ios::binary)
      << std::string_view(reinterpret_cast<const char*>(data), size);
  try {
    fuse_cluster(cluster.node_data(), 0);
  } catch (const DataError&) {
  }
  return 0;
}
