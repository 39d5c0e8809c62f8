#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "heed/arena.h"
#include "heed/dropout.h"
#include "heed/tensor.h"

/// Scaled dot-product attention, softmax(Q K^T / sqrt(Dk) + M) V (Vaswani et al. 2017, arXiv:1706.03762, eq. 1).
/// Letters: N sequences, H heads, L queries, S keys, Dk / Dv key / value width of one head.
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

  /// `shape` aligned from the right against (N, H, L, S). Throws kShapeMismatch naming `argument` where it does not
  /// broadcast.
  static Mask broadcast(const char* argument, Kind kind, const void* data, const Shape& shape,
                        const std::array<Index, 4>& target);
};

/// A score bias that depends only on the head and on j - i: ALiBi (Press et al. 2021, arXiv:2108.12409), the relative
/// buckets of T5 and MPNet.
struct DistanceBias {
  Index max_distance = 0;     ///< distances beyond are clamped
  std::vector<float> values;  ///< (H, 2 max_distance + 1); entry [h, max_distance + (j - i)]
};

/// -slope_h |i - j| with slope_h = 2^(-8 (h + 1) / H), and ALiBi's interleaving for H that is no power of two.
DistanceBias alibiBias(Index num_heads, Index max_distance);
/// T5's buckets (Raffel et al. 2019, arXiv:1910.10683), as MPNet has them too: half of them for keys ahead where
/// `bidirectional`; else all keys ahead share the first. `table` is (num_buckets, H).
DistanceBias relativeBias(ConstMatrixView table, Index max_length, Index bucket_distance, bool bidirectional);

struct AttentionOptions {
  std::optional<float> scale;          ///< default 1 / sqrt(Dk)
  bool causal = false;                 ///< query i sees keys 0 .. query_offset + i
  std::optional<Index> window;         ///< |query_offset + i - j| <= window
  Index query_offset = 0;              ///< position of query 0 among the keys; not 0 when decoding with a cache
  std::span<const Mask> masks;         ///< all apply
  const DistanceBias* bias = nullptr;  ///< added to the scaled scores
  std::span<const float> head_scale;   ///< (H) or (N, H) factors on each head's output, 0 switches it off; empty: all 1
  float dropout = 0;                   ///< rate on the weights ('inverted'); 0 outside training
  DropoutKey dropout_key;              ///< what the draws are made from where dropout > 0
  Index first_sequence = 0;            ///< place of sequence 0 in the whole batch, where a call has only a part of it
};

/// All heads of all sequences.
///
/// query   (sum L_n, H Dk)  head h in columns [h Dk, (h+1) Dk)
/// key     (sum S_n, H Dk)
/// value   (sum S_n, H Dv)
/// output  (sum L_n, H Dv)
/// weights null, or room for the softmax's rows before dropout and head scale: for each n, (H, L_n, S_n), one sequence
/// after the other.
///
/// A query whose keys are all masked gets zeros in output and weights. Without `weights` the memory taken does not grow
/// with L x S. What is forbidden is skipped: keys that no query may see, and for each few queries the panels of 8 keys
/// that causality, the window or a mask hides from all of them. No row's result depends on another sequence, on what is
/// skipped, or on a key and value that it may not see, be they infinite or NaN; those that see them get what comes of
/// it. Values are summed up with weights of up to 1 each before the sum is divided, so those beyond 3e38 / S overflow.
void attention(ConstMatrixView query, ConstMatrixView key, ConstMatrixView value, Index num_heads,
               const Sequences& queries, const Sequences& keys, const AttentionOptions& options, MatrixView output,
               float* weights, Arena& arena);

/// Floats that `weights` must have room for: sum over n of H L_n S_n.
Index attentionWeightsSize(Index num_heads, const Sequences& queries, const Sequences& keys);

}  // namespace heed
