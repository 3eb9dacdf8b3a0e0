// Builds the gradients of a stage's graph (passes/differentiate.hpp): the steps that an operator's rule
// takes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "models/graph/training_graph.hpp"

namespace rookery {

class GradientBuilder {
 public:
  GradientBuilder(TrainingGraph& training, std::set<ValueId> wanted);

  // To be called before the gradients of each op of the forward graph: ends the sums that none of its outputs
  // waits for.
  void begin(const Op& forward);
  // The gradient of an output, complete because all its users come later; kNoValue when nothing
  // downstream depends on it.
  ValueId gradient_of(ValueId value);
  // The gradient of what the op computes before its activation (op_attributes.hpp) is applied: gradient_of()
  // its output 0, through an op of that activation's own where there is one.
  ValueId gradient_before_activation(const Op& forward);
  // Inputs of an op that makes the gradient before a Relu of that of its output: (dY, Y), or (dY, Y, dY')
  // where dY + dY' is the gradient and would have to be summed; none where there is none.
  std::vector<ValueId> relu_gradient_inputs(ValueId output);
  // Whether the gradient of this input or parameter is needed at all.
  bool wants(ValueId value) const { return wanted_.contains(value); }
  bool wants_any(const std::vector<ValueId>& targets) const;
  // The phase in which this value's gradient is made: of a parameter later than of others, which ops before
  // them or other stages wait for.
  Phase phase_for(ValueId target) const;
  // That of an op that makes the gradients of all of these that are wanted.
  Phase phase_for(const std::vector<ValueId>& targets) const;
  // Whether two values of the forward graph have the same type whatever the batch.
  bool same_type(ValueId a, ValueId b) const;
  // Appends an op of `phase` named "<forward op>.<suffix>" with the forward op's attributes and
  // one output per entry of `targets`: the contribution to that value's gradient. Entries that are
  // not wanted become kNoValue outputs.
  void add(Phase phase, const Op& forward, const std::string& type, std::vector<ValueId> inputs,
           const std::vector<ValueId>& targets);
  // Appends such an op with an output for every entry, wanted or not: for kernels that need to know all
  // sizes.
  void add_whole(Phase phase, const Op& forward, const std::string& type, std::vector<ValueId> inputs,
                 const std::vector<ValueId>& targets);
  // Appends such an op that makes more than gradients, for other gradient ops of `forward`: its first
  // outputs, one of the type of each of `made`, which are given back. It is added whether or not a target is
  // wanted.
  std::vector<ValueId> add_making(Phase phase, const Op& forward, const std::string& type,
                                  std::vector<ValueId> inputs, const std::vector<ValueId>& made,
                                  const std::vector<ValueId>& targets);
  // A gradient of a parameter in memory of its own: a copy where it is a view of another value.
  ValueId of_its_own(ValueId parameter, ValueId gradient);
  // Starts the sum for `value` with a gradient that is given.
  void seed(ValueId value, ValueId gradient);

 private:
  struct Term {
    Phase phase;
    std::string forward;
    ValueId gradient;
  };
  std::vector<ValueId> add_op(Phase phase, const Op& forward, const std::string& type,
                              std::vector<ValueId> inputs, const std::vector<ValueId>& made,
                              const std::vector<ValueId>& targets, bool whole);
  void accumulate(Phase phase, const Op& forward, ValueId value, ValueId contribution);
  void accumulate_parameter(const Op& forward, ValueId parameter, ValueId contribution);
  ValueId add_sum(Phase phase, const std::string& forward, ValueId value, ValueId sum, ValueId contribution);
  // Appends an op of this name, or one like it, that makes a gradient of `target`.
  ValueId append(Phase phase, const std::string& forward, const std::string& name, const std::string& type,
                 std::vector<ValueId> inputs, ValueId target);

  TrainingGraph& training_;  // outlives the builder: both live in differentiate()
  std::set<ValueId> wanted_;
  std::vector<TensorType> of_two_, of_three_;    // types at a batch of two and three
  std::map<ValueId, ValueId> gradients_;         // of values that are no parameters
  std::map<ValueId, Term> last_terms_;           // to be added to them, unless whoever reads both does that
  std::map<ValueId, std::string> newest_users_;  // of parameters: the op whose gradient came last
};

}  // namespace rookery
