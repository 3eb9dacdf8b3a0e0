// Names, numbers and conversions that the reader, the importer and the writer of ONNX files share. Internal
// to this module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "models/base/text.hpp"
#include "models/graph/op_signature.hpp"
#include "models/graph/ops/batch_norm.hpp"

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

void set_attribute(onnx::AttributeProto& out, const std::string& key, const Attribute& attribute);

// The constant input (op_signature.hpp) of an operator of the graph, or of a node that makes a constant of
// constants: ConstantOfShape, Range. nullptr: the input is a value.
const ConstantInput* constant_input(const std::string& type, std::size_t position);

// TensorProto.DataType of a dtype, and back; DataError naming a number that stands for none of ours.
int onnx_dtype(DType type);
DType dtype_from_onnx(int type);

// "bn.num_batches_tracked" of "bn.running_mean"; empty when the name does not end so.
std::string tracked_name(const std::string& running_mean);

}  // namespace rookery
