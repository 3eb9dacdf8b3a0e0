#include "fusion/fuse_checkpoint.hpp"

#include <utility>

#include "clusterize/plan/trained_file.hpp"
#include "models/base/error.hpp"
#include "models/runtime/executable.hpp"
#include "trainer/averager.hpp"
#include "trainer/encoding/reconstructions.hpp"

namespace rookery {
namespace {

// Whose parts a checkpoint is made of; at a checkpoint all clusters hold the same model.
constexpr int kCluster = 0;

// DataError where it is not the model's.
StateDict model_state(WholeCheckpoint& checkpoint, const Graph& model) {
  StateDict state;
  for (const auto& [name, type] : checkpoint.types()) {
    if (is_optimizer_key(name) || is_averaging_key(name) || is_reconstruction_key(name)) continue;
    state.emplace(name, checkpoint.read(name));
  }
  with_context(checkpoint.files().folder.string(), [&] { check_state(model, state); });
  return state;
}

Metadata run_of(const WholeCheckpoint& checkpoint) {
  return run_metadata(checkpoint.settings(), checkpoint.plan_id(), kCluster, checkpoint.run().step);
}

}  // namespace

FusedModel fuse_checkpoint(WholeCheckpoint& checkpoint, const std::filesystem::path& node_data) {
  OpenedModel model = open_trained_model(checkpoint.settings(), node_data);
  StateDict state = model_state(checkpoint, model.graph);
  return fused_model(std::move(model), checkpoint.settings(), std::move(state), run_of(checkpoint));
}

FusedModel fuse_checkpoint(WholeCheckpoint& checkpoint, Graph model) {
  StateDict state = model_state(checkpoint, model);
  return fused_model(std::move(model), checkpoint.settings(), std::move(state), run_of(checkpoint));
}

}  // namespace rookery
