/// Scaled dot-product attention, softmax(Q K^T / sqrt(Dk) + M) V. attendBlock() computes this formula for one head and
/// one block of queries; key_selection.h decides which keys a block may attend to and which work can be skipped.
#include "heed/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/check.h"
#include "gemm/attention_products.h"
#include "ops/dropout_draws.h"
#include "ops/key_selection.h"
#include "ops/mask.h"
#include "ops/position_terms.h"
#include "ops/softmax.h"

namespace heed {
namespace {

/// One head of one sequence, with keys and values packed for the two products.
struct Head {
  KeySelection selection;
  PositionTerms positions;
  Panels keys, values;  // packed rows of the selected keys only
  float scale;          // 1 / sqrt(Dk) by default
  float head_mask;

  Head(Index n, Index h, Index num_queries, ConstMatrixView key, ConstMatrixView value, const AttentionOptions& options,
       std::span<const Mask> masks, float scale, float head_mask, Arena& arena)
      : selection(n, h, key.rows(), options, masks, arena),
        positions(h, key, num_queries, options, arena),
        keys(packKeys(key, selection.selected(), arena)),
        values(packValues(value, selection.selected(), arena)),
        scale(scale),
        head_mask(head_mask) {}
};

using RowFactors = std::array<float, kMaxQueries>;

/// Writes one row of attention weights (S), with zeros for skipped keys.
void writeWeights(const VisibleKeys& visible, const float* row, float inverse_sum, float* weights, Index num_keys) {
  std::fill_n(weights, num_keys, 0.0f);
  visible.forEach([&](Index key, Index column) { weights[key] = inverse_sum * row[column]; });
}

/// Applies inverted dropout to the exponentials of query i. Draws depend on the absolute positions of query and key.
void dropEntries(const Head& head, const VisibleKeys& visible, Index i, const RandomState& random, float* row) {
  const AttentionOptions& options = head.selection.options();
  const float scale = keepFactor(options.dropout, DropoutScaling::kInverted);
  DropoutDraws draws(options.dropout_key, options.dropout, random.first_sequence + head.selection.sequence(),
                     head.selection.head(), options.query_offset + i);
  visible.forEach([&](Index key, Index column) { row[column] = draws.drops(key) ? 0 : row[column] * scale; });
}

/// Computes queries [first, first + rows) of a head; they are few, so that their scores stay in the cache. query (rows,
/// Dk), output (rows, Dv), weights and scores (rows, S) or null; edits (rows, S) or null. Not inlined: engines optimize
/// a whole function once one of its loops has run often enough, and all of attention() in one function takes them long.
[[gnu::noinline]] void attendBlock(const Head& head, ConstMatrixView query, Index first, AttentionOutput result,
                                   const AttentionEdits& edits, Context& context) {
  auto& [output, weights, all_scores] = result;
  const float* given = edits.weights ? edits.weights : edits.scores;
  Arena& arena = context.arena;
  const Arena::Scope scope(arena);
  const Index rows = query.rows(), num_keys = head.selection.totalKeys();
  const VisibleKeys visible(head.selection, first, rows, arena);
  const Range features{0, head.keys.depth}, columns{0, head.values.columns};
  MatrixView scores = arena.matrix(rows, (visible.count() + 7) / 8 * 8);
  auto* packed = arena.take<uint32_t>(rows * std::max(query.cols(), visible.count()));

  // Scores: Q K^T / sqrt(Dk).
  RowFactors factors;
  factors.fill(head.scale);
  if (!given) {
    multiplySelected(query, head.keys, {&features, 1}, visible.ranges(), factors.data(), scores, packed);
    head.positions.add(query, first, head.scale, visible, scores, packed, arena);
  }
  MatrixView product = edits.before ? arena.matrix(rows, output.cols()) : output;
  for (Index r = 0; r < rows; ++r) {
    float* row = scores.data() + r * scores.outerStride();
    if (given) visible.forEach([&](Index key, Index column) { row[column] = given[r * num_keys + key]; });
    // Bias and masks: + M.
    if (!edits.weights) visible.addBiasAndMasks(r, row, !given);
    if (all_scores) {
      visible.forEach([&](Index key, Index column) { all_scores[r * num_keys + key] = row[column]; });
      continue;
    }
    std::fill(row + visible.count(), row + scores.cols(), kForbidden);
    const std::span<const Range> allowed =
        head.values.finite ? visible.ranges() : visible.allowed(row, edits.weights ? 0 : kForbidden, arena);
    // Softmax. The product with V divides by the sum, because its rows (Dv) are shorter than those of the scores (S).
    const float sum = edits.weights ? 1 : exponentials(row, scores.cols(), visible.ranges());
    const float inverse_sum = sum == 0 ? 0 : 1 / sum;
    if (weights) writeWeights(visible, row, inverse_sum, weights + r * num_keys, num_keys);
    // Dropout.
    if (head.selection.options().dropout > 0) dropEntries(head, visible, first + r, context.random, row);
    float& factor = factors[static_cast<size_t>(r)];
    factor = head.head_mask * inverse_sum;
    // Product with V for non-finite values: only over the allowed keys of each query, because 0 times NaN is NaN.
    if (!head.values.finite) {
      visible.compactRow(allowed, row);
      Index count = 0;
      for (const Range& range : allowed) count += range.count();
      multiplySelected(readOnly(view(row, 1, count)), head.values, allowed, {&columns, 1}, &factor,
                       view(product.data() + r * product.outerStride(), 1, product.cols()), packed);
    }
  }
  if (all_scores) return;
  // Product with V for the whole block.
  if (head.values.finite) {
    multiplySelected(readOnly(view(scores.data(), rows, visible.count(), scores.outerStride())), head.values,
                     visible.ranges(), {&columns, 1}, factors.data(), product, packed);
  }
  for (Index r = 0; edits.before && r < rows; ++r) {
    const Index at = r * num_keys;
    if (std::memcmp(edits.before + at, given + at, static_cast<size_t>(num_keys) * sizeof(float)) != 0)
      output.row(r) = product.row(r);
  }
}

void check(const AttentionInput& input, Index num_heads, const AttentionOptions& options, ConstMatrixView output) {
  const auto& [query, key, value, queries, keys] = input;
  requireAtLeast("numHeads", num_heads, 1);
  const Index key_heads = options.keyHeads(num_heads);
  if (key_heads < 1 || num_heads % key_heads != 0) {
    throwInvalid(ErrorCode::kInvalidArgument, "keyHeads", "a divisor of numHeads (" + std::to_string(num_heads) + ")",
                 std::to_string(key_heads));
  }
  const auto require_heads = [](const char* argument, Index width, Index heads) {
    if (width % heads != 0) {
      throwInvalid(ErrorCode::kShapeMismatch, argument, "a multiple of numHeads (" + std::to_string(heads) + ")",
                   "width " + std::to_string(width));
    }
  };
  require_heads("query", query.cols(), num_heads);
  require_heads("value", value.cols(), key_heads);
  requireRows("query", query.values(), queries.totalRows());
  requireShape("key", key.values(), keys.totalRows(), query.cols() / num_heads * key_heads);
  requireRows("value", value.values(), keys.totalRows());
  requireShape("output", output, queries.totalRows(), value.cols() / key_heads * num_heads);
  if (keys.count() != queries.count()) {
    throwInvalid(ErrorCode::kShapeMismatch, "key",
                 "as many sequences as query (" + std::to_string(queries.count()) + ")", std::to_string(keys.count()));
  }
  if (options.scale && !std::isfinite(*options.scale))
    throwInvalid(ErrorCode::kInvalidArgument, "scale", "a finite number", numberText(*options.scale));
  if (options.window) requireAtLeast("window", *options.window, 0);
  // Bounds positions so that sums of positions, distances and window radii cannot overflow Index.
  constexpr Index kMaxPositions = std::numeric_limits<Index>::max() / 4;
  requireRange("queryOffset", options.query_offset, 0,
               kMaxPositions - std::min(kMaxPositions, std::max(queries.maxLength(), keys.maxLength())));
  if (options.bias) requireShape("bias", options.bias.values(), num_heads, options.bias.cols() | 1);
  if (options.positions) {
    const Value &position_key = options.positions->key, &position_query = options.positions->query;
    if (position_key) requireColumns("positions.key", position_key.values(), query.cols());
    if (position_query) {
      requireShape("positions.query", position_query.values(), (position_key ? position_key : position_query).rows(),
                   query.cols());
    }
    requireShape("positions", {key_heads}, {num_heads});
  }
  if (options.head_mask)
    requireShape("headMask", options.head_mask.values(), options.head_mask.rows() == 1 ? 1 : queries.count(),
                 num_heads);
  requireRate("dropout", options.dropout);
}

}  // namespace

Index attentionWeightsSize(Index num_heads, const Sequences& queries, const Sequences& keys) {
  double size = 0;
  for (Index n = 0; n < queries.count(); ++n)
    size += static_cast<double>(requireRoom("weights", {num_heads, queries.length(n), keys.length(n)}));
  if (4 * size > static_cast<double>(std::numeric_limits<Index>::max()))
    throwOutOfMemory("weights", {queries.count(), num_heads, queries.maxLength(), keys.maxLength()}, 4 * size);
  return static_cast<Index>(size);
}

void attention(const AttentionInput& input, Index num_heads, const AttentionOptions& given,
               const AttentionOutput& result, Context& context, const AttentionEdits& edits) {
  check(input, num_heads, given, readOnly(result.output));
  AttentionOptions options = given;
  if (result.scores || edits.weights) {
    options.masks = {};
    options.causal = false;
    options.window.reset();
  }
  const Index key_heads = options.keyHeads(num_heads);
  const Index key_width = input.query.cols() / num_heads, value_width = input.value.cols() / key_heads;
  const float scale = options.scaleFor(key_width);
  const std::vector<Mask> masks = broadcastMasks(options.masks, input.queries, num_heads, input.keys);

  // One task per head and sequence. If there are fewer heads than threads, queries are divided into parts, too.
  const Index count = input.queries.count(), heads = Shape{count, num_heads}.size(),
              threads = context.executor.threads();
  const Index parts = threads == 1 || heads == 0 ? 1 : (threads + heads - 1) / heads;
  const Arena::Scope scope(context.arena);
  auto* offsets = context.arena.take<Index>(count);  // where the weights and scores (H, L_n, S_n) of a sequence begin
  const bool has_matrices = result.weights || result.scores || edits.scores || edits.weights;
  for (Index n = 0, next = 0; n < count && has_matrices; ++n) {
    offsets[n] = next;
    next += num_heads * input.queries.length(n) * input.keys.length(n);
  }

  context.executor.run(heads * parts, context, [&](Index i, Context& task) {
    const Index n = i / parts / num_heads, h = i / parts % num_heads, part = i % parts;
    const Index key_head = h * key_heads / num_heads;
    const Index first = input.queries.begin(n), num_queries = input.queries.length(n), num_keys = input.keys.length(n);
    const Index blocks = queryBlocks(num_queries), begin_block = evenPart(blocks, parts, part),
                end_block = evenPart(blocks, parts, part + 1);
    if (begin_block == end_block) return;
    const Arena::Scope task_scope(task.arena);
    const Head head(n, h, num_queries,
                    headRows(input.key.values(), input.keys.begin(n), input.keys.end(n), key_head, key_width),
                    headRows(input.value.values(), input.keys.begin(n), input.keys.end(n), key_head, value_width),
                    options, masks, scale, options.headFactor(n, h, num_heads), task.arena);
    /// The rows starting at query `row` of a matrix (L_n, S_n); null if there is no matrix.
    const auto part_of = [&](auto* all, Index row) {
      return all ? all + offsets[n] + (h * num_queries + row) * num_keys : nullptr;
    };
    for (Index b = begin_block; b < end_block; ++b) {
      const Index begin = evenPart(num_queries, blocks, b), end = evenPart(num_queries, blocks, b + 1);
      attendBlock(head, headRows(input.query.values(), first + begin, first + end, h, key_width), begin,
                  {headRows(result.output, first + begin, first + end, h, value_width), part_of(result.weights, begin),
                   part_of(result.scores, begin)},
                  {part_of(edits.scores, begin), part_of(edits.weights, begin), part_of(edits.before, begin)}, task);
    }
  });
}

void averageHeads(float* weights, Index num_sequences, Index num_heads, Index num_queries, Index num_keys) {
  const Index scores = num_queries * num_keys;
  for (Index n = 0; n < num_sequences; ++n) {
    const ConstMatrixView per_head =
        view(static_cast<const float*>(weights) + n * num_heads * scores, num_heads, scores);
    const Eigen::RowVectorXf mean = per_head.colwise().mean();
    std::copy_n(mean.data(), scores, weights + n * scores);
  }
}

}  // namespace heed
