// A kernel made of oneDNN primitives that run one after the other. Tensors are plain and row-major at
// its boundary; where a primitive wants another layout a reorder is put between. Descriptors of
// the primitives, which know their scratch memory, are made as it is built, the primitives with their code by
// prepare(): run() only hands out addresses.
#pragma once

#include <dnnl.hpp>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/kernels/backend.hpp"

namespace rookery::onednn {

using Tag = dnnl::memory::format_tag;

// One for the whole process; safe to share between threads.
const dnnl::engine& cpu_engine();

// Attributes of every primitive: its scratchpad is ours.
dnnl::primitive_attr user_scratchpad();

// Makes OpenMP use kernel_threads() in the calling thread.
void apply_threads();

// While it is there descriptors are made for one thread; afterwards apply_threads() is called.
class OneThread {
 public:
  OneThread();
  ~OneThread() { apply_threads(); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
};

// Is it one of oneDNN's optimised implementations, not its reference loops?
bool is_optimized(const char* implementation);

// Bytes that oneDNN keeps for a primitive, generated code included: measured in the models of the zoo, where
// primitives alike share much of it.
constexpr std::size_t kPrimitiveBytes = 12 << 10;

// Pieces of work that threads share, at most; more would make each too small for a thread to run at full
// speed.
constexpr std::int64_t kMostPieces = 16;

class Program final : public Kernel {
 public:
  // Memory of the op's inputs and outputs, perhaps from a place behind its first byte on.
  dnnl::memory input(std::size_t index, const dnnl::memory::desc& desc, std::size_t offset = 0);
  dnnl::memory output(std::size_t index, const dnnl::memory::desc& desc, std::size_t offset = 0);
  // A part of memory of this program, from a place behind its first byte on.
  dnnl::memory part_of(const dnnl::memory& whole, const dnnl::memory::desc& desc, std::size_t offset);
  // Scratch memory.
  dnnl::memory kept(const dnnl::memory::desc& desc) { return temporary(desc); }
  // The same for finally(), which finds it at `place`.
  struct Scratch {
    dnnl::memory memory;
    std::size_t place;
  };
  Scratch scratch(const dnnl::memory::desc& desc);
  // `memory` in the layout `desc`: itself, or a copy that is made at this point of the program.
  dnnl::memory converted(const dnnl::memory& memory, const dnnl::memory::desc& desc);
  // Where a primitive may put what becomes `memory`: itself, or a temporary for which the caller calls
  // deliver() after the primitive.
  dnnl::memory staging(const dnnl::memory& memory, const dnnl::memory::desc& desc);
  void deliver(const dnnl::memory& staged, const dnnl::memory& memory);
  // A primitive, given its descriptor.
  template <typename Primitive>
  void add(const typename Primitive::primitive_desc& descriptor,
           std::unordered_map<int, dnnl::memory> arguments) {
    dnnl::memory own = scratchpad(descriptor.scratchpad_desc());
    arguments.emplace(DNNL_ARG_SCRATCHPAD, own);
    add_call({[descriptor] { return Primitive(descriptor); }, {}, std::move(arguments), std::move(own)});
  }
  // Primitives added from here on are one of several pieces, which run at the same time, each on one thread;
  // what follows end_pieces() waits for all of them. They do not depend on the number of threads if their
  // descriptors are made with one, which OneThread sees to.
  void begin_piece();
  void end_pieces() { in_pieces_ = false; }
  // What oneDNN keeps besides for pieces that share little.
  void add_library_bytes(std::size_t bytes) { more_library_bytes_ += bytes; }
  // Work of our own between primitives.
  void add_work(std::function<void()> work);
  // Work of our own after all primitives.
  void finally(std::function<void(const Arguments&)> work) { finally_ = std::move(work); }

  void prepare() override;
  std::size_t scratch_bytes() const override { return temporary_bytes_ + scratchpad_bytes_ * workers_; }
  std::size_t library_bytes() const override { return kPrimitiveBytes * primitives_ + more_library_bytes_; }
  void run(std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs, std::byte* scratch,
           const StepContext& context) override;

 private:
  struct Bound {
    dnnl::memory memory;
    std::size_t place;  // index of the input or output, or offset in scratch
    std::size_t offset = 0;
  };
  struct Call {
    std::function<dnnl::primitive()> make;
    dnnl::primitive primitive;  // empty before prepare()
    std::unordered_map<int, dnnl::memory> arguments;
    dnnl::memory scratchpad;
  };
  struct Piece {
    dnnl::stream stream;
    std::vector<Call> calls;
  };
  struct Step {
    std::vector<Piece> pieces;   // each for one thread; or one for all of them
    std::function<void()> work;  // in their place
    bool for_all = false;
  };

  dnnl::memory temporary(const dnnl::memory::desc& desc);
  dnnl::memory scratchpad(const dnnl::memory::desc& desc);
  void add_call(Call call);
  void run_piece(Piece& piece, std::byte* scratchpad);
  void run_pieces(std::vector<Piece>& pieces, std::byte* scratchpads);
  void add_reorder(const dnnl::memory& from, const dnnl::memory& to);

  std::vector<Bound> inputs_, outputs_, temporaries_;
  std::size_t temporary_bytes_ = 0;
  std::size_t scratchpad_bytes_ = 0;  // of a thread; they lie behind the temporaries
  std::size_t workers_ = 1;           // threads that have one
  std::size_t primitives_ = 0;        // but for those of pieces after the first
  std::size_t more_library_bytes_ = 0;
  bool in_pieces_ = false;
  std::vector<Step> steps_;
  std::function<void(const Arguments&)> finally_;
};

}  // namespace rookery::onednn
