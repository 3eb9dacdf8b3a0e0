// Names of a module's parameters in exported files. torch.onnx.export keeps them, but where it computes
// with a weight beforehand (do_constant_folding, optimize) it makes up a name. Internal to this module.
#pragma once

#include <string>

namespace rookery {

// "onnx::MatMul_12", "val_7", "123": no module has a parameter of this name.
bool is_made_up(const std::string& name);

// Whether a made-up name is of the exporter that traces: "onnx::MatMul_12", "123".
bool is_of_older_exporter(const std::string& name);

// "enc.layers.0.fc1" of the node "/enc/layers.0/fc1/MatMul"; empty where the name has no such form.
std::string module_of_node(const std::string& node);

// "fc1.weight" of "fc1.bias" and "attn.in_proj_weight" of "attn.in_proj_bias"; empty of other names.
std::string weight_beside(const std::string& bias);

}  // namespace rookery
