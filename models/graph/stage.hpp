// Cutting a graph into the stages of a pipeline.
//
// Stage 0 owns the data: every input of the model enters there and travels on to the stages that
// use it, labels included. A value that several stages use goes from its producer to each of them;
// its gradient goes from the last user to the one before it and so on to the producer, each adding
// its share, so that sums have the same order in every cut.
//
// A parameter may be used on several stages, too. The first of them owns it: it updates it, keeps its
// optimizer state and saves it. At the end of every step its gradient goes from the last user to the
// one before and so on to the owner, and the new value from the owner to the next user and so on.
//
// Fixed values may be used on several stages, too: each has it, and each saves it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/graph/graph.hpp"
#include "models/graph/training_graph.hpp"

namespace rookery {

constexpr int kNoStage = -1;

// A value that enters a stage.
struct StageInput {
  std::string value;
  int from = kNoStage;           // producing stage; kNoStage: the data set (stage 0)
  int gradient_to = kNoStage;    // who gets the (partial) gradient; kNoStage: nobody wants it
  int gradient_from = kNoStage;  // whose partial gradient is added to first
  bool operator==(const StageInput&) const = default;
};

// A value that leaves a stage.
struct StageOutput {
  std::string value;
  std::vector<int> to;           // stages that use it; empty: an output of the model
  int gradient_from = kNoStage;  // who sends its gradient
  bool operator==(const StageOutput&) const = default;
};

// A parameter that other stages use as well.
struct SharedParameter {
  std::string parameter;
  int from = kNoStage;           // the user before, who sends its new value; kNoStage: this stage owns it
  int to = kNoStage;             // the next user, who gets it then
  int gradient_to = kNoStage;    // who gets the (partial) gradient of a step
  int gradient_from = kNoStage;  // whose partial gradient is added to first
  bool operator==(const SharedParameter&) const = default;
};

struct Stage {
  int index = 0;
  int count = 1;
  Graph graph;  // its inputs and outputs are those below, in the same order
  std::vector<StageInput> inputs;
  std::vector<StageOutput> outputs;     // sent in this order: what ops make first, which others wait for
  std::vector<SharedParameter> shared;  // in an order that is the same on all stages

  bool is_root() const { return index == 0; }
  bool is_leaf() const { return index == count - 1; }
  // Parameters that this stage owns, and those that it borrows; each in the order of the graph's.
  std::vector<ValueId> owned_parameters() const;
  std::vector<ValueId> borrowed_parameters() const;
  // Those of averaged_values() that are not borrowed.
  std::vector<ValueId> owned_averaged_values() const;
  // The part of the routing that differentiate() needs.
  GradientRequest gradient_request() const { return gradient_request(graph); }
  // The same in a graph that passes made of the stage's: names of inputs and outputs are kept.
  GradientRequest gradient_request(const Graph& lowered) const;
};

// The values that clusters average with each other: the model's parameters, and of the buffers that training
// changes those of f32 (running statistics, no counters); in the order of their ids.
std::vector<ValueId> averaged_values(const Graph& graph);

// The op positions where a stage may begin: no buffer is used on both sides, losses stay with the last op
// whose output one measures, and the values that cross are batches of samples. 0 is not among them.
// Any rising choice of these positions is a legal cut.
std::vector<OpId> cut_positions(const Graph& graph);

// The activations and parameters that have a gradient, because a parameter flows into them and they flow into
// a loss, with the ops that add to it.
std::map<ValueId, std::vector<OpId>> gradient_users(const Graph& graph);

// Cuts at op positions: stage k holds ops [begins[k], begins[k+1]). begins[0] is 0, the rest are
// rising cut_positions(); otherwise ConfigError saying what keeps it together. Value and op names are
// kept. Every stage has the constants that it reads.
std::vector<Stage> cut(const Graph& graph, std::span<const OpId> begins);

}  // namespace rookery
