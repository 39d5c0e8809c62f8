#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "heed/context.h"
#include "heed/dropout.h"
#include "heed/tensor.h"
#include "heed/value.h"

/// Scaled dot-product attention, softmax(Q K^T / sqrt(Dk) + M) V (Vaswani et al. 2017, arXiv:1706.03762, eq. 1).
/// Notation: N sequences, H heads, L queries, S keys, Dk and Dv width of one head's keys and values; L_n and S_n are
/// the numbers of queries and keys of sequence n.
///
/// Sums over keys are added in blocks, so that their error does not grow with S as that of one long sum does: for exact
/// scores, the error of an output is at most (min(S, 512) + S / 512 + min(S / 8, 512) + 8) 2^-24 times the largest
/// |value| of the column. A key that a query may not attend to does not change a bit of the query's result.
namespace heed {

class Evaluator;

/// A mask over the scores, broadcast to (N, H, L, S) by strides; the stride of a repeated axis is 0.
struct Mask {
  enum class Kind {
    kBoolean,   ///< bytes; 1: the query may attend to the key
    kAdditive,  ///< floats, added to the scores; -infinity: the query may not attend to the key
  };
  Kind kind;
  const void* data;
  std::array<Index, 4> strides;  ///< in elements, for (n, h, i, j)

  /// Broadcasts `shape`, aligned from the right, to `target` = (N, H, L, S). Throws kShapeMismatch, naming `argument`,
  /// for shapes that do not broadcast.
  static Mask broadcast(const char* argument, Kind kind, const void* data, const Shape& shape,
                        const std::array<Index, 4>& target);
};

/// A mask as given by the caller. It is broadcast to the scores of a call.
struct MaskTensor {
  const char* argument;  ///< its name in the call, for errors
  Mask::Kind kind;
  const void* data;
  Shape shape;
  bool per_key = false;  ///< a key mask: shape [N, S], or [S] for one sequence, shared by all heads and queries
  Value added = {};      ///< additive masks that need a gradient: `data` as a row; otherwise empty

  static MaskTensor boolean(const char* argument, const uint8_t* data, const Shape& shape);
  /// Throws kInvalidArgument for a NaN in the mask. `added`: as above.
  static MaskTensor additive(const char* argument, const float* data, const Shape& shape, const Value& added = {});
};
/// Broadcasts all masks of one call to its scores (N, H, L, S). Throws kShapeMismatch.
std::vector<Mask> broadcastMasks(std::span<const MaskTensor> masks, const Sequences& queries, Index num_heads,
                                 const Sequences& keys);

/// A score bias that depends only on the head and on the distance j - i of key j from query i: ALiBi (Press et al.
/// 2021, arXiv:2108.12409) or the relative position buckets of T5 and MPNet.
struct PositionBias {
  Index max_distance = 0;     ///< larger distances are clamped
  std::vector<float> values;  ///< (H, 2 max_distance + 1); entry [h, max_distance + (j - i)]

  /// The biases of head h, indexed by j - i from -max_distance to max_distance.
  const float* head(Index h) const { return values.data() + h * (2 * max_distance + 1) + max_distance; }
  /// (H, 2 max_distance + 1), as in AttentionOptions.
  Value value() const {
    const Index width = 2 * max_distance + 1;
    return Value::constant(view(values.data(), static_cast<Index>(values.size()) / width, width));
  }
  /// Writes the bias of every query and key to `output` (H, L, S). L and S must not exceed max_distance + 1.
  void expand(Index num_heads, Index num_queries, Index num_keys, float* output) const;
};

/// ALiBi: -slope_h |i - j| with slope_h = 2^(-8 (h + 1) / H), or the paper's interleaved slopes if H is not a power of
/// two. Throws kInvalidArgument for num_heads < 1 or max_distance < 0.
PositionBias alibiBias(Index num_heads, Index max_distance);
/// Relative position buckets as in T5 (Raffel et al. 2019, arXiv:1910.10683) and MPNet. If `bidirectional`, half of the
/// buckets are for keys after the query; otherwise all later keys share the first bucket. `table` is (num_buckets, H),
/// `max_length` the largest distance in the result, `bucket_distance` the distance at which the last bucket begins.
/// Throws kShapeMismatch for too few buckets, kInvalidArgument for distances that are too small.
PositionBias relativeBias(ConstMatrixView table, Index max_length, Index bucket_distance, bool bidirectional);

/// Relative positions of disentangled attention (He et al. 2021, arXiv:2006.03654, eq. 4): the score of query i and key
/// j also has the terms Q_i PK_r^T (content to position) and K_j PQ_r^T (position to content), where r is the row for
/// their distance i - j. C is the number of rows; each stands for one distance or a bucket of distances.
struct DisentangledPositions {
  Value key;                    ///< PK (C, H Dk); empty: no term content to position
  Value query;                  ///< PQ (C, H Dk); empty: no term position to content
  Index max_distance = 0;       ///< larger distances are clamped
  const Index* rows = nullptr;  ///< (2 max_distance + 1); entry max_distance + (i - j) is first + r; ascending
  Index first = 0;
  Value embeddings = {};  ///< (C, E): a layer projects them to PK and PQ if both are empty
};

/// The bucket of `distance` = i - j in DeBERTa v2: the distance itself up to buckets / 2; then it grows logarithmically
/// and reaches buckets - 1 at max_distance - 1, but is not limited there. Negative distances have the negated bucket.
/// Requires 0 < buckets / 2 < max_distance - 1.
Index logBucket(Index distance, Index buckets, Index max_distance);

class Rotary;

/// Options of one call of attention, of a layer with attention, or of a stack of such layers.
struct AttentionOptions {
  std::optional<float> scale;         ///< factor on Q K^T; default 1 / sqrt(Dk)
  bool causal = false;                ///< query i attends to keys 0 .. query_offset + i only
  std::optional<Index> window;        ///< query i attends to keys with |query_offset + i - j| <= window only
  Index query_offset = 0;             ///< position of query 0 among the keys; positive when decoding with a cache
  std::span<const MaskTensor> masks;  ///< all of them apply
  Index key_heads = 0;                ///< Hk, heads of the keys and values, a divisor of H; 0: H. Head h of the
                                      ///< queries attends to head h Hk / H (Ainslie et al. 2023, arXiv:2305.13245)
  Value bias;                         ///< (H, 2 D + 1) or empty: entry [h, D + (j - i)] is added to the scaled scores;
                                      ///< larger distances are clamped to D. See PositionBias
  const DisentangledPositions* positions = nullptr;  ///< adds its terms to the scores before they are scaled
  Value head_mask;         ///< (1, H), (N, H) or empty: factor on each head's output; 0 switches it off. For a stack of
                           ///< layers: (layers, maximum H)
  float dropout = 0;       ///< dropout rate on the weights, with inverted scaling; set by layers
  DropoutKey dropout_key;  ///< identifies the draws if dropout > 0
  const Rotary* rotary = nullptr;  ///< layers only: rotates the projected queries and keys
  bool rotary_values = false;      ///< layers only: also rotates the projected values (RoFormer)

  /// Hk, for queries with H heads.
  Index keyHeads(Index num_heads) const { return key_heads == 0 ? num_heads : key_heads; }
  /// The factor on Q K^T for heads of width Dk.
  float scaleFor(Index key_width) const { return scale.value_or(1 / std::sqrt(static_cast<float>(key_width))); }
  /// Where head_mask has the factor on head h of H of sequence n.
  Index headMaskIndex(Index n, Index h, Index num_heads) const {
    return (head_mask.rows() > 1 ? n * num_heads : 0) + h;
  }
  /// The factor on the output of head h of H of sequence n.
  float headFactor(Index n, Index h, Index num_heads) const {
    return head_mask ? head_mask.data()[headMaskIndex(n, h, num_heads)] : 1;
  }
};

/// Inputs of attention: the rows of all sequences, one sequence after the other.
struct AttentionInput {
  Value query;               ///< (sum L_n, H Dk), head h in columns [h Dk, (h + 1) Dk)
  Value key;                 ///< (sum S_n, Hk Dk)
  Value value;               ///< (sum S_n, Hk Dv)
  const Sequences& queries;  ///< L_n
  const Sequences& keys;     ///< S_n
};

/// Results of attention.
struct AttentionOutput {
  MatrixView output;  ///< (sum L_n, H Dv)
  /// Null, or memory for attentionWeightsSize() floats: the softmax before dropout and head mask, (H, L_n, S_n) for
  /// each sequence n, one sequence after the other.
  float* weights = nullptr;
  /// Null, or memory for attentionWeightsSize() floats: the scores of all keys before masks, laid out like `weights`.
  /// Nothing else is then computed.
  float* scores = nullptr;
};

/// Scores or weights that have been edited, and with which attention continues. They are laid out like
/// AttentionOutput::weights; null: not edited.
struct AttentionEdits {
  const float* scores = nullptr;
  const float* weights = nullptr;  ///< used without masks
  const float* before = nullptr;   ///< the weights before the edits: where a row has not changed, output is not written
};

/// Attention for all heads of all sequences. Throws kShapeMismatch and kInvalidArgument, naming the argument.
///
/// A query whose keys are all masked gets zeros in output and weights. Without `weights`, the memory used does not grow
/// with L x S. Work for masked keys is skipped: keys that no query may attend to, and for each block of queries the
/// panels of 8 keys that causality, the window or a mask hides from the whole block.
///
/// The result of a query does not depend on other sequences, on what is skipped, or on keys that it may not attend to,
/// even if these keys or their values are infinite or NaN; queries that may attend to such a key do receive the NaN.
/// Values are summed with weights of up to 1 before the sum is divided, so values beyond 3e38 / S overflow.
void attention(const AttentionInput& input, Index num_heads, const AttentionOptions& options,
               const AttentionOutput& result, Context& context, const AttentionEdits& edits = {});

/// The size of AttentionOutput::weights in floats: the sum over n of H L_n S_n. Throws kOutOfMemory for sizes that
/// cannot be addressed.
Index attentionWeightsSize(Index num_heads, const Sequences& queries, const Sequences& keys);

/// Replaces weights (N, H, L, S) by their mean over heads, (N, L, S), at the beginning of the same memory.
void averageHeads(float* weights, Index num_sequences, Index num_heads, Index num_queries, Index num_keys);

/// Attention for tensors with arbitrary leading axes, with one head per matrix. The constructor checks the shapes and
/// computes those of the results, so that the caller can allocate the weights before forward().
///
/// The leading axes of query [..., L, Dk], key [..., S, Dk] and value [..., S, Dv] broadcast against each other, the
/// mask broadcasts to the scores [..., L, S]. Throws kShapeMismatch.
class BatchedAttention {
 public:
  BatchedAttention(const Shape& query, const Shape& key, const Shape& value);

  const Shape& outputShape() const { return output_; }    ///< [..., L, Dv]
  const Shape& weightsShape() const { return weights_; }  ///< [..., L, S]

  /// Each matrix becomes a sequence with one head; matrices and masks that broadcast are copied. The arguments are
  /// matrices (..., last axis) with the shapes of the constructor. `options.masks` has at most one mask. The result and
  /// `weights` (or null) have the shapes above.
  Value forward(Evaluator& e, const Value& query, const Value& key, const Value& value, const AttentionOptions& options,
                float* weights) const;

 private:
  Shape query_, key_, value_, leading_, output_, weights_;
};

}  // namespace heed
