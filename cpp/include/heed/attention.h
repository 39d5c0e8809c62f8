#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "heed/context.h"
#include "heed/dropout.h"
#include "heed/tensor.h"

/// Scaled dot-product attention, softmax(Q K^T / sqrt(Dk) + M) V (Vaswani et al. 2017, arXiv:1706.03762, eq. 1).
/// Notation: N sequences, H heads, L queries, S keys, Dk / Dv key / value width of one head.
namespace heed {

/// A mask over the scores, broadcast to (N, H, L, S) by strides: an axis of stride 0 repeats.
struct Mask {
  enum class Kind {
    kBoolean,   ///< bytes, 1 = the query may attend to the key
    kAdditive,  ///< floats added to the scores; -inf forbids
  };
  Kind kind;
  const void* data;
  std::array<Index, 4> strides;  ///< in elements, for (n, h, i, j)

  /// `shape` aligned from the right against `target` = (N, H, L, S). Throws kShapeMismatch naming `argument` where it
  /// does not broadcast.
  static Mask broadcast(const char* argument, Kind kind, const void* data, const Shape& shape,
                        const std::array<Index, 4>& target);
  /// The element `offset` elements after the first.
  const void* at(Index offset) const;
};

/// A mask as a caller gives it: not yet broadcast to the scores of one call.
struct MaskTensor {
  const char* argument;  ///< its name in the call, for errors
  Mask::Kind kind;
  const void* data;
  Shape shape;
  bool per_key = false;  ///< [N, S], or [S] for one sequence: the same keys for every head and query

  /// `target` = (N, H, L, S). Throws kShapeMismatch.
  Mask broadcast(const std::array<Index, 4>& target) const;
};
/// All masks of one call.
std::vector<Mask> broadcastMasks(std::span<const MaskTensor> masks, const std::array<Index, 4>& target);

/// A score bias that depends only on the head and on j - i: ALiBi (Press et al. 2021, arXiv:2108.12409), the relative
/// buckets of T5 and MPNet.
struct PositionBias {
  Index max_distance = 0;     ///< distances beyond are clamped
  std::vector<float> values;  ///< (H, 2 max_distance + 1); entry [h, max_distance + (j - i)]

  /// The biases of head h, to be indexed by j - i from -max_distance to max_distance.
  const float* head(Index h) const { return values.data() + h * (2 * max_distance + 1) + max_distance; }
  /// Writes the bias of every query and key to `output` (H, L, S), whose distances are at most max_distance.
  void expand(Index num_heads, Index num_queries, Index num_keys, float* output) const;
};

/// -slope_h |i - j| with slope_h = 2^(-8 (h + 1) / H), and ALiBi's interleaving for H that is no power of two.
PositionBias alibiBias(Index num_heads, Index max_distance);
/// T5's buckets (Raffel et al. 2019, arXiv:1910.10683), which MPNet uses too: half of them for keys after the query
/// where `bidirectional`; otherwise all later keys share the first. `table` is (num_buckets, H).
PositionBias relativeBias(ConstMatrixView table, Index max_length, Index bucket_distance, bool bidirectional);

struct AttentionOptions {
  std::optional<float> scale;          ///< default 1 / sqrt(Dk)
  bool causal = false;                 ///< query i sees keys 0 .. query_offset + i
  std::optional<Index> window;         ///< |query_offset + i - j| <= window
  Index query_offset = 0;              ///< position of query 0 among the keys; not 0 when decoding with a cache
  std::span<const Mask> masks;         ///< all apply
  const PositionBias* bias = nullptr;  ///< added to the scaled scores
  std::span<const float> head_mask;    ///< (H) or (N, H) factors on each head's output, 0 switches it off; empty: all 1
  float dropout = 0;                   ///< rate on the weights ('inverted'); 0 outside training
  DropoutKey dropout_key;              ///< identifies the draws where dropout > 0
};

/// What attention reads: rows of all sequences, one sequence after the other.
struct AttentionInput {
  ConstMatrixView query;     ///< (sum L_n, H Dk), head h in columns [h Dk, (h + 1) Dk)
  ConstMatrixView key;       ///< (sum S_n, H Dk)
  ConstMatrixView value;     ///< (sum S_n, H Dv)
  const Sequences& queries;  ///< L_n
  const Sequences& keys;     ///< S_n
};

/// What attention writes.
struct AttentionOutput {
  MatrixView output;  ///< (sum L_n, H Dv)
  /// Null, or room for the softmax's rows before dropout and head mask: for each n, (H, L_n, S_n), one sequence after
  /// the other.
  float* weights = nullptr;
};

/// All heads of all sequences.
///
/// A query whose keys are all masked gets zeros in output and weights. Without `weights` the memory taken does not grow
/// with L x S. What is forbidden is skipped: keys that no query may attend to, and for each block of queries the panels
/// of 8 keys that causality, the window or a mask hides from all of them. No row's result depends on another sequence,
/// on what is skipped, or on a key and value that it may not attend to, be they infinite or NaN; queries that may
/// attend to such a key do receive the NaN. Values are summed with weights of up to 1 each before the sum is divided,
/// so values beyond 3e38 / S overflow.
void attention(const AttentionInput& input, Index num_heads, const AttentionOptions& options,
               const AttentionOutput& result, Context& context);

/// Floats that `weights` must have room for: sum over n of H L_n S_n.
Index attentionWeightsSize(Index num_heads, const Sequences& queries, const Sequences& keys);

/// The mean over heads of weights (N, H, L, S), in place at the front as (N, L, S).
void averageHeads(float* weights, Index num_sequences, Index num_heads, Index num_queries, Index num_keys);

/// Attention of tensors with any leading axes, one head each, as a plan of shapes and one call.
///
/// query [..., L, Dk], key [..., S, Dk] and value [..., S, Dv] broadcast their leading axes against each other, the
/// mask against the scores [..., L, S]. Throws kShapeMismatch.
class BatchedAttention {
 public:
  BatchedAttention(const Shape& query, const Shape& key, const Shape& value);

  const Shape& outputShape() const { return output_; }    ///< [..., L, Dv]
  const Shape& weightsShape() const { return weights_; }  ///< [..., L, S]

  /// `mask` or null; `options.masks` is ignored. `output` and `weights` (or null) have the shapes above. The matrix at
  /// place b of the leading axes draws dropout as sequence b.
  void forward(const float* query, const float* key, const float* value, const MaskTensor* mask,
               const AttentionOptions& options, float* output, float* weights, Context& context) const;

 private:
  Shape query_, key_, value_, leading_, output_, weights_;
};

}  // namespace heed
