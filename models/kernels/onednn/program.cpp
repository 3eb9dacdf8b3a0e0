#include "models/kernels/onednn/program.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <string_view>

#include "models/base/check.hpp"
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

OneThread::OneThread() {
#ifdef _OPENMP
  omp_set_num_threads(1);
#endif
}

bool is_optimized(const char* implementation) {
  return std::string_view(implementation).find("ref") == std::string_view::npos;
}

dnnl::memory Program::input(std::size_t index, const dnnl::memory::desc& desc, std::size_t offset) {
  inputs_.push_back({dnnl::memory(desc, cpu_engine(), DNNL_MEMORY_NONE), index, offset});
  return inputs_.back().memory;
}

dnnl::memory Program::output(std::size_t index, const dnnl::memory::desc& desc, std::size_t offset) {
  outputs_.push_back({dnnl::memory(desc, cpu_engine(), DNNL_MEMORY_NONE), index, offset});
  return outputs_.back().memory;
}

dnnl::memory Program::part_of(const dnnl::memory& whole, const dnnl::memory::desc& desc, std::size_t offset) {
  dnnl::memory part(desc, cpu_engine(), DNNL_MEMORY_NONE);
  for (std::vector<Bound>* all : {&inputs_, &outputs_, &temporaries_}) {
    const auto found =
        std::ranges::find_if(*all, [&](const Bound& bound) { return bound.memory.get() == whole.get(); });
    if (found == all->end()) continue;
    const Bound bound{part, found->place, found->offset + offset};
    all->push_back(bound);
    return part;
  }
  ROOKERY_CHECK(false, "a part of memory that is not this program's");
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
  scratchpad_bytes_ = std::max(scratchpad_bytes_, align_up(desc.get_size()));
  return {desc, cpu_engine(), DNNL_MEMORY_NONE};
}

void Program::add_reorder(const dnnl::memory& from, const dnnl::memory& to) {
  const dnnl::reorder::primitive_desc descriptor(cpu_engine(), from.get_desc(), cpu_engine(), to.get_desc(),
                                                 user_scratchpad());
  add<dnnl::reorder>(descriptor, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

void Program::begin_piece() {
  if (!in_pieces_) steps_.emplace_back();
  in_pieces_ = true;
  std::vector<Piece>& pieces = steps_.back().pieces;
  pieces.push_back({dnnl::stream(cpu_engine()), {}});
  workers_ = std::max(workers_, static_cast<std::size_t>(places_for(std::ssize(pieces))));
}

void Program::add_work(std::function<void()> work) {
  steps_.push_back({.pieces = {}, .work = std::move(work)});
}

void Program::add_call(Call call) {
  if (!in_pieces_)
    steps_.push_back({.pieces = {{dnnl::stream(cpu_engine()), {}}}, .work = {}, .for_all = true});
  std::vector<Piece>& pieces = steps_.back().pieces;
  pieces.back().calls.push_back(std::move(call));
  if (pieces.size() == 1) ++primitives_;
}

void Program::prepare() {
  apply_threads();
  for (Step& step : steps_) {
    for (Piece& piece : step.pieces) {
      for (Call& call : piece.calls)
        if (!call.primitive) call.primitive = call.make();
    }
  }
}

void Program::run(std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs,
                  std::byte* scratch, const StepContext& context) {
  apply_threads();
  for (const Bound& bound : inputs_) {
    // oneDNN knows no constant memory; primitives only read their sources.
    bound.memory.set_data_handle(const_cast<std::byte*>(inputs[bound.place].data) + bound.offset);
  }
  for (const Bound& bound : outputs_) bound.memory.set_data_handle(outputs[bound.place].data + bound.offset);
  for (const Bound& bound : temporaries_) bound.memory.set_data_handle(scratch + bound.place + bound.offset);
  for (Step& step : steps_) {
    if (step.work) {
      step.work();
    } else if (step.for_all) {
      run_piece(step.pieces.front(), scratch + temporary_bytes_);
    } else {
      run_pieces(step.pieces, scratch + temporary_bytes_);
    }
  }
  if (finally_) finally_(Arguments{inputs, outputs, scratch, context});
}

void Program::run_piece(Piece& piece, std::byte* scratchpad) {
  for (Call& call : piece.calls) {
    call.scratchpad.set_data_handle(scratchpad);
    call.primitive.execute(piece.stream, call.arguments);
  }
  piece.stream.wait();
}

void Program::run_pieces(std::vector<Piece>& pieces, std::byte* scratchpads) {
  in_places(std::ssize(pieces), static_cast<std::int64_t>(workers_),
            [&](std::int64_t worker, std::int64_t i) {
              const OneThread alone;
              run_piece(pieces[i], scratchpads + static_cast<std::size_t>(worker) * scratchpad_bytes_);
            });
}

}  // namespace rookery::onednn
