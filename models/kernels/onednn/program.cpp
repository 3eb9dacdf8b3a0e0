#include "models/kernels/onednn/program.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <string_view>

#include "models/kernels/threads.hpp"

namespace rookery::onednn {

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

void apply_threads() {
#ifdef _OPENMP
  if (omp_get_max_threads() != kernel_threads()) omp_set_num_threads(kernel_threads());
#endif
}

bool is_optimized(const char* implementation) {
  return std::string_view(implementation).find("ref") == std::string_view::npos;
}

Program::Program() : stream_(cpu_engine()) {}

dnnl::memory Program::input(std::size_t index, const dnnl::memory::desc& desc, std::size_t offset) {
  inputs_.push_back({dnnl::memory(desc, cpu_engine(), DNNL_MEMORY_NONE), index, offset});
  return inputs_.back().memory;
}

dnnl::memory Program::output(std::size_t index, const dnnl::memory::desc& desc, std::size_t offset) {
  outputs_.push_back({dnnl::memory(desc, cpu_engine(), DNNL_MEMORY_NONE), index, offset});
  return outputs_.back().memory;
}

Program::Scratch Program::scratch(const dnnl::memory::desc& desc) {
  const std::size_t place = temporary_bytes_;
  return {temporary(desc), place};
}

dnnl::memory Program::converted(const dnnl::memory& memory, const dnnl::memory::desc& desc) {
  if (memory.get_desc() == desc) return memory;
  dnnl::memory copy = temporary(desc);
  add_reorder(memory, copy);
  return copy;
}

dnnl::memory Program::staging(const dnnl::memory& memory, const dnnl::memory::desc& desc) {
  return memory.get_desc() == desc ? memory : temporary(desc);
}

void Program::deliver(const dnnl::memory& staged, const dnnl::memory& memory) {
  if (staged.get() != memory.get()) add_reorder(staged, memory);
}

dnnl::memory Program::temporary(const dnnl::memory::desc& desc) {
  temporaries_.push_back({dnnl::memory(desc, cpu_engine(), DNNL_MEMORY_NONE), temporary_bytes_});
  temporary_bytes_ += align_up(desc.get_size());
  return temporaries_.back().memory;
}

dnnl::memory Program::scratchpad(const dnnl::memory::desc& desc) {
  scratchpads_.emplace_back(desc, cpu_engine(), nullptr);
  scratchpad_bytes_ = std::max(scratchpad_bytes_, align_up(desc.get_size()));
  return scratchpads_.back();
}

void Program::add_reorder(const dnnl::memory& from, const dnnl::memory& to) {
  const dnnl::reorder::primitive_desc descriptor(cpu_engine(), from.get_desc(), cpu_engine(), to.get_desc(),
                                                 user_scratchpad());
  add<dnnl::reorder>(descriptor, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

void Program::prepare() {
  apply_threads();
  for (Step& step : steps_) {
    if (!step.primitive) step.primitive = step.make();
  }
}

void Program::run(std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs,
                  std::byte* scratch, const StepContext& context) {
  apply_threads();
  for (const Bound& bound : inputs_) {
    // oneDNN knows no constant memory; primitives only read their sources.
    bound.memory.set_data_handle(const_cast<std::byte*>(inputs[bound.place].data) + bound.offset, stream_);
  }
  for (const Bound& bound : outputs_)
    bound.memory.set_data_handle(outputs[bound.place].data + bound.offset, stream_);
  for (const Bound& bound : temporaries_) bound.memory.set_data_handle(scratch + bound.place, stream_);
  for (const dnnl::memory& memory : scratchpads_) memory.set_data_handle(scratch + temporary_bytes_, stream_);
  for (const Step& step : steps_) step.primitive.execute(stream_, step.arguments);
  stream_.wait();
  if (finally_) finally_(Arguments{inputs, outputs, scratch, context});
}

}  // namespace rookery::onednn
