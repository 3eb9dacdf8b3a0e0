// ONNX models, with a file of weights beside them.
#include "models/base/error.hpp"
#include "models/io/onnx/onnx.hpp"
#include "tests/fuzz/scratch_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rookery;
  static const ScratchFile file("input.onnx");
  static const bool has_weights = [] {
    StateDict state;
    state.emplace("weights", Tensor(DType::kF32, {4096}));
    write_safetensors(file.folder() / "weights.safetensors", state);
    return true;
  }();
  (void)has_weights;
  file.fill(data, size);
  try {
    import_onnx(file.path());
  } catch (const DataError&) {
  }
  return 0;
}
