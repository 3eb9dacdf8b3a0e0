// Puts functions that a foreign model brings along (as torch.onnx.export with dynamo=True writes them) in the
// place of their calls. Internal to this module.
#pragma once

namespace onnx {
class ModelProto;
}

namespace rookery {

// Puts the body of every function but our own in the place of its calls. DataError where functions call one
// another without end, or what comes of it is too large.
void inline_functions(onnx::ModelProto& model);

}  // namespace rookery
