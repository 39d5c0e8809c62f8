#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>

#include "core/check.h"
#include "heed/attention.h"
#include "heed/evaluator.h"
#include "ops/broadcast.h"

namespace heed {
namespace {

/// All axes but the last two.
Shape leadingAxes(const Shape& shape) {
  return Shape(std::vector<Index>(shape.extents().begin(), shape.extents().end() - 2));
}

/// The shape of matrices (rows, columns) with these leading axes.
Shape matrices(const Shape& leading, Index rows, Index columns) {
  std::vector<Index> extents = leading.extents();
  extents.push_back(rows);
  extents.push_back(columns);
  return Shape(std::move(extents));
}

/// The matrices of x, a tensor with `shape`, repeated along the leading axes in which they broadcast.
Value repeated(Evaluator& e, const Value& x, const Shape& shape, const Shape& leading) {
  const Shape own = leadingAxes(shape);
  if (own == leading) return x;
  std::vector<Index> rows;
  for (const Index matrix : broadcastSources(own, leading)) {
    for (Index i = 0; i < shape[-2]; ++i) rows.push_back(matrix * shape[-2] + i);
  }
  return e.gatherRows(x, std::move(rows));
}

/// A mask that broadcasts to `weights` [..., L, S] as [M, 1, L or 1, S or 1], where M is the number of matrices, or 1
/// if the mask is the same for all.
MaskTensor repeated(Evaluator& e, MaskTensor mask, const Shape& weights) {
  Shape shape = mask.shape;
  // A mask for multi-head scores, [N, 1, L, S], also applies to scores [N, L, S].
  if (weights.rank() == 3 && shape.rank() == 4 && shape[1] == 1) shape = {shape[0], shape[2], shape[3]};
  if (!broadcastStrides(shape, weights))
    throwShapeMismatch(mask.argument, "a shape that broadcasts to " + weights.toString(), mask.shape);
  std::vector<Index> extents = shape.extents();
  while (extents.size() < 2) extents.insert(extents.begin(), 1);
  shape = Shape(std::move(extents));
  const Shape own = leadingAxes(shape), leading = leadingAxes(weights);
  const Index size = shape[-2] * shape[-1];
  const bool shared = own.size() == 1;
  mask.shape = {shared ? 1 : leading.size(), 1, shape[-2], shape[-1]};
  if (shared || own == leading) return mask;
  const std::vector<Index> sources = broadcastSources(own, leading);
  if (mask.added) {
    const Value repeats = e.gatherRows(e.reshape(mask.added, own.size(), size), sources);
    mask.added = e.reshape(repeats, 1, repeats.rows() * size);
    mask.data = mask.added.data();
    return mask;
  }
  const Index bytes = size * (mask.kind == Mask::Kind::kBoolean ? 1 : static_cast<Index>(sizeof(float)));
  (void)requireRoom(mask.argument, mask.shape);  // so that the number of bytes does not overflow
  const std::shared_ptr<std::byte[]> repeats(new std::byte[sources.size() * static_cast<size_t>(bytes)]);
  std::byte* next = repeats.get();
  for (const Index matrix : sources)
    next = std::copy_n(static_cast<const std::byte*>(mask.data) + matrix * bytes, bytes, next);
  mask.data = repeats.get();
  e.share(std::shared_ptr<const void>(repeats, repeats.get()));
  return mask;
}

}  // namespace

BatchedAttention::BatchedAttention(const Shape& query, const Shape& key, const Shape& value)
    : query_(query), key_(key), value_(value) {
  if (query.rank() < 2) throwShapeMismatch("query", "[..., L, Dk]", query);
  leading_ = leadingAxes(query);
  const auto join = [&](const char* argument, const Shape& shape, bool fits, const std::string& matrix) {
    std::optional<Shape> joined;
    if (fits) joined = broadcastShape(leading_, leadingAxes(shape));
    if (!joined) {
      throwShapeMismatch(argument,
                         "[..., " + matrix + "] whose leading axes broadcast with those of query, " + query.toString(),
                         shape);
    }
    leading_ = *joined;
  };
  join("key", key, key.rank() >= 2 && key[-1] == query[-1], "S, " + std::to_string(query[-1]));
  join("value", value, value.rank() >= 2 && value[-2] == key[-2], std::to_string(key[-2]) + ", Dv");
  output_ = matrices(leading_, query[-2], value[-1]);
  weights_ = matrices(leading_, query[-2], key[-2]);
}

Value BatchedAttention::forward(Evaluator& e, const Value& query, const Value& key, const Value& value,
                                const AttentionOptions& options, float* weights) const {
  AttentionOptions call = options;
  std::optional<MaskTensor> mask;
  if (!options.masks.empty()) {
    mask = repeated(e, options.masks.front(), weights_);
    call.masks = {&*mask, leading_.size() > 0 ? 1U : 0U};
  }
  const Value q = repeated(e, query, query_, leading_), k = repeated(e, key, key_, leading_),
              v = repeated(e, value, value_, leading_);
  const Sequences queries = Sequences::uniform(leading_.size(), query_[-2]),
                  keys = Sequences::uniform(leading_.size(), key_[-2]);
  return e.attention({q, k, v, queries, keys}, 1, call, weights);
}

}  // namespace heed
