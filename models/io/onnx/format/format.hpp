// What the reader and the writer of ONNX files share. Internal to this module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "models/base/text.hpp"
#include "models/graph/graph.hpp"

namespace onnx {
class AttributeProto;
}

namespace rookery {

constexpr std::int64_t kOnnxIrVersion = 8;
constexpr std::int64_t kOnnxOpset = 17;
constexpr const char* kOnnxBatch = "batch";                // the dim_param that stands for kBatch
constexpr const char* kOnnxVersionKey = "rookery_format";  // in metadata_props
constexpr std::int64_t kOnnxNewestVersion = 2;
constexpr const char* kOnnxFixed = "fixed";  // doc_string of initializers that are, since version 2
// A model without its weights; tens of thousands of nodes fit, and constants such as masks.
constexpr std::uint64_t kMaxOnnxBytes = 64ULL << 20;
constexpr const char* kTrackedSuffix = ".num_batches_tracked";
constexpr const char* kMeanSuffix = ".running_mean";

// Positions among the inputs of BatchNormalization.
constexpr std::size_t kBatchNormMean = 3;
constexpr std::size_t kBatchNormVariance = 4;
constexpr std::size_t kBatchNormTracked = 5;

// kType: in a Graph the name of a dtype, in a file its TensorProto.DataType.
enum class AttributeKind : std::uint8_t { kInt, kFloat, kString, kInts, kFloats, kType };

AttributeKind kind_of(const Attribute& attribute);
void set_attribute(onnx::AttributeProto& out, const std::string& key, const Attribute& attribute);

// What an operator may look like in a file.
struct OnnxOperator {
  std::size_t least_inputs = 1;
  std::size_t most_inputs = 1;
  std::map<std::string, AttributeKind> attributes;
  std::size_t most_outputs = 1;
  bool floats_only = true;  // otherwise the operator itself knows which inputs of other types it takes
};

// nullptr when files do not have it.
const OnnxOperator* find_onnx_operator(const std::string& type);

// What is an attribute of the op in a Graph and a constant initializer in a file, its input `position`:
// shape of Reshape, min of Clip. kFloat is f32[] there, kFloats f32[n], kInt i64[], kInts i64[n].
struct ConstantInput {
  std::string key;
  AttributeKind kind;
};

// nullptr: the input is a value.
const ConstantInput* constant_input(const std::string& type, std::size_t position);

// TensorProto.DataType of a dtype, and back; DataError naming a number that stands for none of ours.
int onnx_dtype(DType type);
DType dtype_from_onnx(int type);

// "bn.num_batches_tracked" of "bn.running_mean"; empty when the name does not end so.
std::string tracked_name(const std::string& running_mean);

}  // namespace rookery
