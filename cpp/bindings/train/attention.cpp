#include "attention.h"

#include <algorithm>

#include "core/check.h"
#include "heed/train/ops.h"
#include "ops/broadcast.h"

/// Attention on tensors with any leading axes.
namespace heed::bindings {

std::optional<MaskTensor> readMask(train::RecordingEvaluator& e, const char* argument, const val& mask) {
  if (mask.isNull() || mask.isUndefined()) return std::nullopt;
  if (mask["data"].isUndefined()) {
    const BoundVariable& added = *readHandle(mask);
    const Value values = e.value(asRow(e.graph(), added));
    return MaskTensor{argument, Mask::Kind::kAdditive, values.data(), added.shape(), false, values};
  }
  auto read = readMask(argument, mask);
  const auto* first = static_cast<const uint8_t*>(read->data);
  const std::shared_ptr<const uint8_t[]> bytes = [&] {
    const auto size = static_cast<size_t>(read->shape.size());
    std::shared_ptr<uint8_t[]> copy(new uint8_t[size]);
    std::copy_n(first, size, copy.get());
    return copy;
  }();
  read->data = e.share(std::shared_ptr<const uint8_t>(bytes, bytes.get()));
  return read;
}

namespace {

using train::Graph;

Shape leadingAxes(const Shape& shape) { return axes(shape, 0, shape.rank() - 2); }

/// The matrices of x, broadcast to the leading axes, one after the other.
Variable repeated(Graph& graph, const BoundVariable& x, const Shape& leading) {
  std::vector<Index> extents = leading.extents();
  extents.insert(extents.end(), {x.shape()[-2], x.shape()[-1]});
  return broadcast(graph, x, Shape(std::move(extents)));
}

/// Reshapes a mask that broadcasts to `weights` [..., L, S] to [M, 1, L or 1, S or 1], where M is the number of
/// matrices, or 1 if the mask is the same for all.
void placeMask(train::RecordingEvaluator& e, const Shape& weights, MaskTensor& mask) {
  Shape shape = mask.shape;
  // A mask for multi-head scores, [N, 1, L, S], also applies to scores [N, L, S].
  if (weights.rank() == 3 && shape.rank() == 4 && shape[1] == 1) shape = {shape[0], shape[2], shape[3]};
  if (!broadcastStrides(shape, weights))
    refuseShape(mask.argument, "a shape that broadcasts to " + weights.toString(), mask.shape);
  std::vector<Index> extents = shape.extents();
  while (extents.size() < 2) extents.insert(extents.begin(), 1);
  shape = Shape(std::move(extents));
  const Shape leading = leadingAxes(shape), target = leadingAxes(weights);
  const Index size = shape[-2] * shape[-1];
  const bool shared = leading.size() == 1;
  mask.shape = {shared ? 1 : target.size(), 1, shape[-2], shape[-1]};
  if (shared || leading == target) return;
  const std::vector<Index> matrices = sourcesOf(leading, target);
  const auto count = static_cast<Index>(matrices.size());
  if (mask.added) {
    Graph& graph = e.graph();
    const Variable rows = train::reshape(graph, e.variable(mask.added), leading.size(), size);
    mask.added = e.value(train::reshape(graph, train::gatherRows(graph, rows, matrices), 1, count * size));
    mask.data = mask.added.data();
    return;
  }
  auto bytes = std::make_shared<std::vector<uint8_t>>();
  for (const Index matrix : matrices) {
    const auto* first = static_cast<const uint8_t*>(mask.data) + matrix * size;
    bytes->insert(bytes->end(), first, first + size);
  }
  mask.data = e.share(std::shared_ptr<const uint8_t>(bytes, bytes->data()));
}

}  // namespace

Value recordAttention(train::RecordingEvaluator& e, const BatchedAttention& attention, const Argument& query,
                      const Argument& key, const Argument& value, AttentionOptions options,
                      std::optional<MaskTensor> mask, float* weights) {
  const Shape leading = leadingAxes(attention.outputShape());
  if (mask) {
    placeMask(e, attention.weightsShape(), *mask);
    options.masks = {&*mask, 1};
  }
  const auto input = [&](const Argument& x) {
    return e.value(repeated(e.graph(), {x.shape, e.variable(x.value)}, leading));
  };
  const Value q = input(query), k = input(key), v = input(value);
  const Sequences queries = Sequences::uniform(leading.size(), query.shape[-2]),
                  keys = Sequences::uniform(leading.size(), key.shape[-2]);
  return e.attention({q, k, v, queries, keys}, 1, options, weights);
}

}  // namespace heed::bindings
