// The table of one instruction set.
#include "models/kernels/simd/loops/vector.hpp"

#if defined(__AVX512F__)
namespace rookery::simd::x86_64_v4_bf16 {
void multiply_pairs(const Product&);
}
#endif

namespace rookery::simd::ROOKERY_ISA {

#if defined(__AVX512F__)
constexpr auto* kMultiplyPairs = x86_64_v4_bf16::multiply_pairs;
#else
constexpr void (*kMultiplyPairs)(const Product&) = nullptr;
#endif

void multiply(const Product&);
void multiply_dots(const DotProduct&);
void sum_lanes(Index, const float*, float*);
void transpose(Index, Index, const float*, Index, float*, Index);
void transpose_whole(Index, Index, const float*, Index, float*, Index);
void column_sums(Index, Index, const float*, float*);
void unfold(const Unfold&, const float*, float*, float*);
void fold(const Unfold&, const float*, float*, float*);
bool is_shallow(const Unfold&);
void shallow_convolution(const Unfold&, Index, Index, const float*, const float*, const float*, bool, float*);
void spread_windows(const SpreadWindows&, const float*, float*);
void gather_windows(const SpreadWindows&, const float*, float*);
void pool_halves(const HalvingPool&, const float*, float*, std::uint8_t*);
void pool_halves_grad(const HalvingPool&, const float*, const std::uint8_t*, float*);
void average_pool(const AveragePool&, const float*, float*, float*);
void average_pool_grad(const AveragePool&, const float*, float*, float*);
void batch_norm_statistics(const BatchNorm&, const float*, float*, float*);
void batch_norm_apply(const BatchNorm&, const float*, const float*, const float*, const float*, const float*,
                      bool, float*);
void batch_norm_sums(const BatchNorm&, const float*, const float*, const float*, float*, float*);
void batch_norm_grad(const BatchNorm&, const float*, const float*, const float*, const float*, const float*,
                     const float*, float*);
void block_sums(const ChannelBlock&, const float*, float*);
void block_squares(const ChannelBlock&, const float*, const float*, float*);
void block_normalize(const ChannelBlock&, const float*, const float*, const float*, const float*,
                     const float*, bool, float*);
void block_gradient_sums(const ChannelBlock&, const float*, const float*, const float*, float*, float*);
void block_gradient(const ChannelBlock&, const float*, const float*, const float*, const float*, const float*,
                    const float*, float*);
void blocked_max_pool(const BlockedPool&, const float*, float*, std::uint8_t*);
void blocked_max_pool_grad(const BlockedPool&, const float*, const std::uint8_t*, float*);
void blocked_average_pool(const AveragePool&, const float*, float*);
void blocked_average_pool_grad(const AveragePool&, const float*, float*);
extern const Winograd kWinogradOfTiles, kWinogradOfPairs;
void lstm_step(const LstmStep&, const float*, const float*, float*, float*, float*);
void lstm_step_grad(const LstmStep&, const float*, const float*, const float*, const float*, const float*,
                    float*, float*);
void gru_step(const GruStep&, const float*, const float*, const float*, float*, float*);
void gru_step_grad(const GruStep&, const float*, const float*, const float*, const float*, float*, float*,
                   float*);
void rnn_step(const RnnStep&, const float*, float*);
void rnn_step_grad(const RnnStep&, const float*, const float*, const float*, float*);
void layer_norm(const LayerNorm&, const float*, const float*, const float*, float*, float*, float*);
void layer_norm_grad(const LayerNorm&, const float*, const float*, const float*, const float*, const float*,
                     float*, float*, float*, float*);
void attention_softmax(const AttentionRows&, float*, float*);
void attention_weights(const AttentionRows&, float*, const float*);
void attention_scores_grad(const AttentionRows&, const float*, float*);
void relu(Index, const float*, float*);
void relu_grad(Index, const float*, const float*, const float*, float*);
void map(const Function&, Index, const float*, float*);
void map_grad(const Function&, Index, const float*, const float*, float*);
void add(Index, const float*, const float*, float*);
void dropout(const Dropout&, const float*, float*, std::uint8_t*);
void dropout_grad(Index, float, const float*, const std::uint8_t*, float*);
void softmax(Index, Index, const float*, float*);
void softmax_grad(Index, Index, const float*, const float*, float*);
float sum_exp(Index, const float*, float);
float peak_of(Index, const float*);
LogitSums logit_sums(Index, const float*, const float*);
void cross_entropy_grad(Index, const float*, float, float, float, float, const float*, float*);
float squared_distance(Index, const float*, const float*);
void scaled_difference(Index, float, const float*, const float*, float*);
float distance(Index, const float*, const float*);
void scaled_sign(Index, float, const float*, const float*, float*);
float bce(Index, const float*, const float*, const float*, Index);
void bce_grad(Index, float, const float*, const float*, const float*, Index, float*);
void adam(const AdamCoefficients&, Index, float*, const float*, float*, float*, const KeptChange&);
void sgd(const SgdCoefficients&, Index, float*, const float*, float*, const KeptChange&);
void rmsprop(const RmspropCoefficients&, Index, float*, const float*, float*, float*, float*,
             const KeptChange&);
void lion(const LionCoefficients&, Index, float*, const float*, float*, const KeptChange&);
LambNorms lamb_moments(const LambCoefficients&, Index, const float*, const float*, float*, float*);
void lamb_step(const LambCoefficients&, float, Index, float*, const float*, const float*, const KeptChange&);
void scale_and_add(Index, float, const float*, float*);
void to_float16(Index, const float*, std::byte*);
void from_float16(Index, const std::byte*, float*);
void to_bfloat16(Index, const float*, std::byte*);
void from_bfloat16(Index, const std::byte*, float*);
float largest_magnitude(Index, const float*);
void to_steps(Index, float, float, const float*, std::int8_t*);
void from_steps(Index, float, const std::int8_t*, float*);

#define ROOKERY_TEXT_OF(name) #name
#define ROOKERY_TEXT(name) ROOKERY_TEXT_OF(name)

const Loops& table() {
  static constexpr Loops kLoops{.name = ROOKERY_TEXT(ROOKERY_ISA),
                                .lanes = kLanes,
                                .multiply = multiply,
                                .multiply_pairs = kMultiplyPairs,
                                .multiply_dots = multiply_dots,
                                .sum_lanes = sum_lanes,
                                .transpose = transpose,
                                .transpose_whole = transpose_whole,
                                .column_sums = column_sums,
                                .lstm_step = lstm_step,
                                .lstm_step_grad = lstm_step_grad,
                                .gru_step = gru_step,
                                .gru_step_grad = gru_step_grad,
                                .rnn_step = rnn_step,
                                .rnn_step_grad = rnn_step_grad,
                                .unfold = unfold,
                                .fold = fold,
                                .is_shallow = is_shallow,
                                .shallow_convolution = shallow_convolution,
                                .spread_windows = spread_windows,
                                .gather_windows = gather_windows,
                                .pool_halves = pool_halves,
                                .pool_halves_grad = pool_halves_grad,
                                .average_pool = average_pool,
                                .average_pool_grad = average_pool_grad,
                                .batch_norm_statistics = batch_norm_statistics,
                                .batch_norm_apply = batch_norm_apply,
                                .batch_norm_sums = batch_norm_sums,
                                .batch_norm_grad = batch_norm_grad,
                                .block_sums = block_sums,
                                .block_squares = block_squares,
                                .block_normalize = block_normalize,
                                .block_gradient_sums = block_gradient_sums,
                                .block_gradient = block_gradient,
                                .blocked_max_pool = blocked_max_pool,
                                .blocked_max_pool_grad = blocked_max_pool_grad,
                                .blocked_average_pool = blocked_average_pool,
                                .blocked_average_pool_grad = blocked_average_pool_grad,
                                .winograd = &kWinogradOfTiles,
                                .winograd_of_pairs = &kWinogradOfPairs,
                                .layer_norm = layer_norm,
                                .layer_norm_grad = layer_norm_grad,
                                .attention_softmax = attention_softmax,
                                .attention_weights = attention_weights,
                                .attention_scores_grad = attention_scores_grad,
                                .relu = relu,
                                .relu_grad = relu_grad,
                                .map = map,
                                .map_grad = map_grad,
                                .add = add,
                                .dropout = dropout,
                                .dropout_grad = dropout_grad,
                                .softmax = softmax,
                                .softmax_grad = softmax_grad,
                                .sum_exp = sum_exp,
                                .peak_of = peak_of,
                                .logit_sums = logit_sums,
                                .cross_entropy_grad = cross_entropy_grad,
                                .squared_distance = squared_distance,
                                .scaled_difference = scaled_difference,
                                .distance = distance,
                                .scaled_sign = scaled_sign,
                                .bce = bce,
                                .bce_grad = bce_grad,
                                .adam = adam,
                                .sgd = sgd,
                                .rmsprop = rmsprop,
                                .lion = lion,
                                .lamb_moments = lamb_moments,
                                .lamb_step = lamb_step,
                                .scale_and_add = scale_and_add,
                                .to_float16 = to_float16,
                                .from_float16 = from_float16,
                                .to_bfloat16 = to_bfloat16,
                                .from_bfloat16 = from_bfloat16,
                                .largest_magnitude = largest_magnitude,
                                .to_steps = to_steps,
                                .from_steps = from_steps};
  return kLoops;
}

}  // namespace rookery::simd::ROOKERY_ISA
