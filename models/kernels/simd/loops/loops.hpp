// The loops of the SIMD back end. Each is compiled once per instruction set, from the same source, in
// a namespace of its own; loops() hands out those for this processor. Pointers are aligned to
// kAlignment unless said otherwise; sizes count elements.
#pragma once

#include <cstdint>

#include "models/kernels/arithmetic.hpp"

namespace rookery::simd {

using Index = std::int64_t;

constexpr Index kImageBlock = 16;  // channels of a place of an image in blocks

// C = init + A B for row-major C, rectified where asked. A(i, j) lies at a[i * a_row + j * a_column]. Rows of
// B are b_row apart and can be read up to the next multiple of lanes(); so can those of `columns`. The depth
// is `chunks` times k.
struct Product {
  Index m, n, k;
  const float* a;
  Index a_row, a_column;
  const float* b;
  Index b_row;
  float* c;
  Index c_row;
  const float* rows = nullptr;     // init of each row, or nothing
  const float* columns = nullptr;  // init of each column, or nothing
  bool relu = false;
  bool accumulates = false;     // C is added to the init
  Index b_block = kImageBlock;  // from one block of columns of B to the next
  Index chunks = 1, a_chunk = 0, b_chunk = 0;
  // How far from what is read, or written, lies what is to be soon, which is asked for meanwhile; 0: nothing.
  Index a_ahead = 0, b_ahead = 0, c_ahead = 0;
  Index b_ahead_row = 0;  // b_row of what lies there; 0: the same
};

// Adds A B^T to sums, where row i of A is `chunks` runs of `run` floats (a multiple of the lanes), runs
// a_chunk apart, rows a_row apart; B likewise. Element (i, j) is spread over one vector of sums, at
// sums[(i * n + j) * lanes].
struct DotProduct {
  Index m, n, chunks, run;
  const float* a;
  Index a_row, a_chunk;
  const float* b;
  Index b_row, b_chunk;
  float* sums;
};

// Some units of an LSTM at one step: rows of a batch, `gate_row` and `state_row` floats apart; `units`, a
// multiple of the lanes; where the blocks of the gates begin in a row.
struct LstmStep {
  Index rows, units, gate_row, state_row;
  Index i, o, f, c;
};

// The same of a GRU, whose reset gate is applied after the product with R.
struct GruStep {
  Index rows, units, gate_row, state_row;
  Index z, r, h;
};

// The same of an RNN: tanh or, where it `rectifies`, max(x, 0).
struct RnnStep {
  Index rows, units, row;
  bool rectifies;
};

// Planes [h, w] to planes of half the size: 2 x 2 windows, 2 apart.
struct HalvingPool {
  Index planes, out_h, out_w, in_h, in_w;
};

// The elements of one window along an axis of which it averages: those in the image, and how many it divides
// by, among them elements of the padding where these count.
struct Averaged {
  Index begin, end, count;
};

// Planes [in_h, in_w] to averages [out_h, out_w].
struct AveragePool {
  Index planes, in_h, in_w, out_h, out_w;
  const Averaged* rows;     // by row of the output
  const Averaged* columns;  // by column
};

struct BatchNorm {
  Index batch, channels, plane;
};

// One block of 16 channels in images of the blocked layout (models/graph/op_attributes.hpp): in each
// of `batch` images, `stride` floats apart, `plane` places of 16 floats.
struct ChannelBlock {
  Index batch, plane, stride;
};

// Blocked planes [in_h, in_w] to planes [out_h, out_w].
struct BlockedPool {
  Index planes, in_h, in_w, out_h, out_w;
  Index kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left;
};

// A tile of an image, outputs or the inputs that they see: its first place, counted from that of
// the image, whose rows are `row` places apart; and its part that lies in the image.
struct WinogradTile {
  Index place, row;
  Index top, bottom, left, right;
};

// Winograd's transforms (winograd.cpp) of one tile or one window, for 16 channels: images are blocks of
// channels, the matrices are `step` floats apart.
struct Winograd {
  Index tile, field;  // outputs of a tile and inputs that it sees, along an axis
  Index matrices;
  void (*input)(const WinogradTile&, const float* x, float* matrices, Index step);
  void (*output)(const WinogradTile&, const float* matrices, Index step, const float* bias, bool relu,
                 float* y);  // bias may be absent
  void (*output_grad)(const WinogradTile&, const float* dy, float* matrices, Index step);
  // Of 16 windows of 3 x 3: taps[9][16]; `turned`: by half a turn.
  void (*weight)(const float* taps, bool turned, float* matrices, Index step);
  void (*weight_grad)(const float* matrices, Index step, float* taps);
};

struct Dropout {
  Index elements;
  std::uint32_t key_low, key_high;
  std::uint64_t stream;
  std::uint32_t threshold;
  float scale;
  std::uint64_t first_block = 0;  // of the counters: 4 elements each
};

struct LayerNorm {
  Index rows, n;
  float epsilon;
};

// Scores of attention: rows are `stride` apart, which is a multiple of 16, and see all columns, or when
// causal the first one `seen` of them and every next one more. Of what is behind the columns as much is read
// and written as fills a vector; it has to be finite.
struct AttentionRows {
  Index rows, columns, stride;
  bool is_causal;
  Index seen;
  float scale;
};

// The receptive fields of an image [channels, in_h, in_w] as columns [channels * kernel_h * kernel_w, row],
// of which the first out_h * out_w are used. `padded` is room for [channels, padded_h, padded_w], zeros
// around the image.
struct Unfold {
  Index channels, in_h, in_w, out_h, out_w;
  Index padded_h, padded_w, pad_top, pad_left;
  Index kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
  Index row;
};

// Windows weights[out_channels, in_channels, taps] in a matrix: the window of channels (o, c) begins at
// c * in_step + o * out_step and takes `rows` rows, row_step apart, of `columns` elements, of which each is
// the tap tap_at[row * columns + column], or 0 where that is negative. In a row each tap is once at most.
struct SpreadWindows {
  Index out_channels, in_channels, taps;
  Index rows, columns;
  const std::int32_t* tap_at;
  Index in_step, out_step, row_step;
};

// Functions of one number with loops of their own.
struct Function {
  enum class Kind : std::uint8_t {
    kClip,  // numbers: min, max
    kGelu,
    kGeluTanh,
    kHardSigmoid,  // alpha, beta
    kHardSwish,
    kLeakyRelu,  // alpha
    kSigmoid,
    kTanh
  };
  Kind kind = Kind::kClip;
  float numbers[2] = {};
};

// Sums over a row of logits and their targets.
struct LogitSums {
  float logits, targets, products;
};

// lamb_moments() adds up so many elements in float, and these sums in their order in double.
constexpr Index kLambBlock = 4096;

struct Loops {
  const char* name;
  Index lanes;  // floats in a vector

  void (*multiply)(const Product&);
  // The same with two numbers of bf16 in the place of every float of A and B, one of an even and one of an
  // odd term: k counts such pairs. nullptr where this instruction set multiplies none; has_bf16()
  // (precision.hpp) says whether the processor does.
  void (*multiply_pairs)(const Product&);
  void (*multiply_dots)(const DotProduct&);
  // out[i] = sum of the `lanes` floats at sums[i * lanes].
  void (*sum_lanes)(Index n, const float* sums, float* out);
  // to[j * to_row + i] = from[i * from_row + j] for i < rows, j < columns.
  void (*transpose)(Index rows, Index columns, const float* from, Index from_row, float* to, Index to_row);
  // The same, with zeros for the rows that would fill up the last vector.
  void (*transpose_whole)(Index rows, Index columns, const float* from, Index from_row, float* to,
                          Index to_row);
  // Sums of the columns of a dense [rows, n].
  void (*column_sums)(Index rows, Index n, const float* x, float* sums);

  // From sums of products in `gates`, but for the bias (of gates; may be absent), gates, cells and states.
  // c_before may be absent, and the same as c.
  void (*lstm_step)(const LstmStep&, const float* bias, const float* c_before, float* gates, float* c,
                    float* h);
  // The gradient of gates before their functions, from the gradient of the states, which is dy (may be
  // absent) + dh, and of the cells, dc, which becomes that of the cells before. c_before may be absent.
  void (*lstm_step_grad)(const LstmStep&, const float* gates, const float* c, const float* c_before,
                         const float* dy, const float* dh, float* dc, float* dgates);

  // As lstm_step; `candidates` holds R h + bias of the candidates, whose bias is else that of the inputs
  // alone. h_before may be absent.
  void (*gru_step)(const GruStep&, const float* bias, const float* h_before, const float* candidates,
                   float* gates, float* h);
  // As lstm_step_grad; dh becomes what of it goes past the gates to the states before.
  void (*gru_step_grad)(const GruStep&, const float* gates, const float* candidates, const float* h_before,
                        const float* dy, float* dh, float* dgates, float* dcandidates);
  // y holds the sums of products, but for the bias, and becomes the states.
  void (*rnn_step)(const RnnStep&, const float* bias, float* y);
  void (*rnn_step_grad)(const RnnStep&, const float* y, const float* dy, const float* dh, float* dgates);

  // Writes the image into `padded`, whose border is zero, and from there the columns.
  void (*unfold)(const Unfold&, const float* image, float* padded, float* columns);
  // The reverse, adding where fields overlap. `padded` may hold anything.
  void (*fold)(const Unfold&, const float* columns, float* padded, float* image);

  // Convolution of one group without columns: is there a loop for it, and the loop. bias may be absent.
  bool (*is_shallow)(const Unfold&);
  void (*shallow_convolution)(const Unfold&, Index batch, Index out_channels, const float* x,
                              const float* weights, const float* bias, bool relu, float* y);

  // weights need not be aligned; matrix is written where there is a window.
  void (*spread_windows)(const SpreadWindows&, const float* weights, float* matrix);
  // The reverse: every weight becomes the sum over its places.
  void (*gather_windows)(const SpreadWindows&, const float* matrix, float* weights);

  void (*pool_halves)(const HalvingPool&, const float* x, float* y,
                      std::uint8_t* window);  // window may be absent
  void (*pool_halves_grad)(const HalvingPool&, const float* dy, const std::uint8_t* window, float* dx);

  // `sums`, `shares`: room for in_w floats.
  void (*average_pool)(const AveragePool&, const float* x, float* sums, float* y);
  void (*average_pool_grad)(const AveragePool&, const float* dy, float* shares, float* dx);

  // Per channel: mean, and sum of squared differences to it.
  void (*batch_norm_statistics)(const BatchNorm&, const float* x, float* mean, float* squares);
  // y = (x - mean) * scale + bias + added, rectified where asked; there may be nothing to add.
  void (*batch_norm_apply)(const BatchNorm&, const float* x, const float* mean, const float* scale,
                           const float* bias, const float* added, bool relu, float* y);
  // Per channel: sum of dy, and of dy * (x - mean).
  void (*batch_norm_sums)(const BatchNorm&, const float* dy, const float* x, const float* mean, float* sum,
                          float* product);
  // dx = (dy - mean_dy - (x - mean) * slope) * factor.
  void (*batch_norm_grad)(const BatchNorm&, const float* dy, const float* x, const float* mean,
                          const float* mean_dy, const float* slope, const float* factor, float* dx);

  // The same of one block.
  // Sums over its places, image by image; squares of the differences from `mean`.
  void (*block_sums)(const ChannelBlock&, const float* x, float* sums);
  void (*block_squares)(const ChannelBlock&, const float* x, const float* mean, float* squares);
  void (*block_normalize)(const ChannelBlock&, const float* x, const float* mean, const float* scale,
                          const float* bias, const float* added, bool relu, float* y);
  void (*block_gradient_sums)(const ChannelBlock&, const float* dy, const float* x, const float* mean,
                              float* sum, float* product);
  void (*block_gradient)(const ChannelBlock&, const float* dy, const float* x, const float* mean,
                         const float* mean_dy, const float* slope, const float* factor, float* dx);
  void (*blocked_max_pool)(const BlockedPool&, const float* x, float* y,
                           std::uint8_t* window);  // window may be absent
  void (*blocked_max_pool_grad)(const BlockedPool&, const float* dy, const std::uint8_t* window, float* dx);
  // The same of all planes, 16 of which make a block.
  void (*blocked_average_pool)(const AveragePool&, const float* x, float* y);
  void (*blocked_average_pool_grad)(const AveragePool&, const float* dy, float* dx);

  const Winograd* winograd;           // tiles of 4 x 4 of any map
  const Winograd* winograd_of_pairs;  // maps of 2 x 2, padded by one, whole

  // bias, mean and inverse may be absent, the last two together.
  void (*layer_norm)(const LayerNorm&, const float* x, const float* scale, const float* bias, float* y,
                     float* mean, float* inverse);
  // dx may be absent. `sums` is room for 2 * n numbers.
  void (*layer_norm_grad)(const LayerNorm&, const float* dy, const float* x, const float* scale,
                          const float* mean, const float* inverse, float* dx, float* dscale, float* dbias,
                          float* sums);

  // Scores to softmax(scale * scores), zeros where nothing is seen; log_sums may be absent, and is infinite
  // for a row without any weight.
  void (*attention_softmax)(const AttentionRows&, float* scores, float* log_sums);
  // The same from log_sums, as far as these have digits for it; then each row is divided by its sum.
  void (*attention_weights)(const AttentionRows&, float* scores, const float* log_sums);
  // The gradient of the weights to that of the scores.
  void (*attention_scores_grad)(const AttentionRows&, const float* weights, float* gradient);

  void (*relu)(Index n, const float* x, float* y);
  // Of the gradient dy + other; other may be absent.
  void (*relu_grad)(Index n, const float* dy, const float* other, const float* y, float* dx);
  // y = f(x), and dx = dy * f'(v), where v is x for kGelu and kGeluTanh and y for others.
  void (*map)(const Function&, Index n, const float* x, float* y);
  void (*map_grad)(const Function&, Index n, const float* dy, const float* v, float* dx);
  void (*add)(Index n, const float* a, const float* b, float* sum);
  void (*dropout)(const Dropout&, const float* x, float* y, std::uint8_t* mask);
  void (*dropout_grad)(Index n, float scale, const float* dy, const std::uint8_t* mask, float* dx);

  void (*softmax)(Index rows, Index n, const float* x, float* y);
  void (*softmax_grad)(Index rows, Index n, const float* dy, const float* y, float* dx);
  // Sum of exp(x - peak) of one row; x need not be aligned.
  float (*sum_exp)(Index n, const float* x, float peak);
  // The largest of n >= 1 numbers that are not NaN; x need not be aligned.
  float (*peak_of)(Index n, const float* x);

  // Sums of losses; no pointer need be aligned, and y may be x.
  LogitSums (*logit_sums)(Index n, const float* x, const float* target);  // target may be absent
  // y = scale * exp(x - shift) + offset + slope * target; target may be absent.
  void (*cross_entropy_grad)(Index n, const float* x, float shift, float scale, float offset, float slope,
                             const float* target, float* y);
  // Sum of (x - t)^2, and y = factor * (x - t).
  float (*squared_distance)(Index n, const float* x, const float* t);
  void (*scaled_difference)(Index n, float factor, const float* x, const float* t, float* y);
  // Sum of |x - t|, and y = factor * sign(x - t).
  float (*distance)(Index n, const float* x, const float* t);
  void (*scaled_sign)(Index n, float factor, const float* x, const float* t, float* y);
  // Sum of (1 - t) x + (1 + (w - 1) t) softplus(-x), and y = factor times its derivative; w[i * w_step],
  // w_step 0 or 1.
  float (*bce)(Index n, const float* x, const float* t, const float* w, Index w_step);
  void (*bce_grad)(Index n, float factor, const float* x, const float* t, const float* w, Index w_step,
                   float* y);

  // n is a multiple of 16.
  void (*adam)(const AdamCoefficients&, Index n, float* parameter, const float* gradient, float* mean,
               float* square, const KeptChange&);
  void (*sgd)(const SgdCoefficients&, Index n, float* parameter, const float* gradient, float* velocity,
              const KeptChange&);
  void (*rmsprop)(const RmspropCoefficients&, Index n, float* parameter, const float* gradient, float* square,
                  float* mean, float* velocity, const KeptChange&);  // mean and velocity may be absent
  void (*lion)(const LionCoefficients&, Index n, float* parameter, const float* gradient, float* mean,
               const KeptChange&);

  // n is any number.
  LambNorms (*lamb_moments)(const LambCoefficients&, Index n, const float* parameter, const float* gradient,
                            float* mean, float* square);
  void (*lamb_step)(const LambCoefficients&, float step_size, Index n, float* parameter, const float* mean,
                    const float* square, const KeptChange&);
  // values = values * factor + offsets, as KeptChange has it.
  void (*scale_and_add)(Index n, float factor, const float* offsets, float* values);

  // See models/kernels/fewer_bits.hpp. n is any number, and no pointer need be aligned but those of floats
  // to 4.
  void (*to_float16)(Index n, const float* x, std::byte* y);
  void (*from_float16)(Index n, const std::byte* x, float* y);
  void (*to_bfloat16)(Index n, const float* x, std::byte* y);
  void (*from_bfloat16)(Index n, const std::byte* x, float* y);
  float (*largest_magnitude)(Index n, const float* x);
  void (*to_steps)(Index n, float unit, float most, const float* x, std::int8_t* y);
  void (*from_steps)(Index n, float unit, const std::int8_t* x, float* y);
};

// The best that this processor runs, or those selected.
const Loops& loops();
// Names of all that this processor runs, best first.
const char* const* loop_names();  // ends in nullptr
// Makes loops() hand out those of this name; for tests, before kernels are made. False: unknown here.
bool select_loops(const char* name);

}  // namespace rookery::simd
