#include "attention.h"

#include <emscripten/bind.h>

#include <algorithm>

#include "core/check.h"
#include "heed/train/ops.h"
#include "ops/broadcast.h"

/// Attention and rotary positions of tensors with any leading axes.
namespace heed::bindings {

std::shared_ptr<const Rotary> rotaryTables(const val& option, Index head_dim, Index length, Index first) {
  const RotaryOption rotary(option, head_dim);
  if (!rotary.given()) return nullptr;
  struct Kept {
    RotaryOption option;
    std::shared_ptr<const Rotary> tables;
  };
  static std::vector<Kept> kept;  // the most recently used first
  constexpr size_t kMost = 4;     // a model has few
  auto found = std::ranges::find(kept, rotary, &Kept::option);
  if (found == kept.end() || found->tables->maxLength() - length < first) {
    auto tables = std::make_shared<const Rotary>(rotary.make(length, first));
    if (found == kept.end()) {
      if (kept.size() == kMost) kept.pop_back();
      found = kept.insert(kept.end(), {rotary, nullptr});
    }
    found->tables = std::move(tables);
  }
  std::rotate(kept.begin(), found, found + 1);
  return kept.front().tables;
}

std::optional<MaskTensor> readMask(BoundGraph& graph, train::RecordingEvaluator& e, const char* argument,
                                   const val& mask) {
  if (mask.isNull()) return std::nullopt;
  if (mask["data"].isUndefined()) {
    const BoundVariable& added = *readHandle(mask);
    const Value values = e.value(asRow(graph, added));
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

Batch batchOf(train::RecordingEvaluator& e, const char* argument, const BoundVariable& x, Index width) {
  const Shape& shape = x.shape();
  const Index rank = shape.rank();
  if (rank < 2 || rank > 3 || shape[-1] != width) {
    const std::string w = std::to_string(width);
    refuseShape(argument, "[N, L, " + w + "] or [L, " + w + "]", shape);
  }
  const Index count = rank == 3 ? shape[0] : 1, length = shape[-2];
  return {e.value(x.variable()), count, length, rank == 3};
}

namespace {

using train::Graph;

Shape leadingAxes(const Shape& shape) { return axes(shape, 0, shape.rank() - 2); }

/// The matrices of x, one after the other, repeated along the leading axes.
Variable repeated(Graph& graph, const BoundVariable& x, const Shape& leading) {
  std::vector<Index> extents = leading.extents();
  extents.insert(extents.end(), {x.shape()[-2], x.shape()[-1]});
  return broadcast(graph, x, Shape(std::move(extents)));
}

/// Gives a mask that broadcasts to `weights` [..., L, S] the shape [matrices, 1, L or 1, S or 1], or [1, 1, ...] if it
/// is the same for all.
void placeMask(train::RecordingEvaluator& e, const Shape& weights, MaskTensor& mask) {
  Shape shape = mask.shape;
  // A mask [N, 1, L, S], as for multi-head scores, also applies to scores [N, L, S].
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

/// As the function attention; `options.mask` is as in readMask(), and the weights become `results.weights`.
BoundVariable* attentionOf(BoundGraph& bound, const BoundVariable& query, const BoundVariable& key,
                           const BoundVariable& value, const val& options, val results) {
  return guarded([&] {
    Graph& graph = bound.graph();
    train::RecordingEvaluator e(graph);
    const BatchedAttention attention(query.shape(), key.shape(), value.shape());
    const Shape &output_shape = attention.outputShape(), &weights_shape = attention.weightsShape();
    const Shape leading = leadingAxes(output_shape);
    AttentionOptions call = readCallOptions(options);
    if (const val scale = options["scale"]; !scale.isNull()) call.scale = scale.as<float>();
    if (const val dropout = options["dropout"]; !dropout.isNull()) {
      call.dropout = readFloat(dropout, "p");
      call.dropout_key.seed = readSeed(dropout["seed"]);
    }
    auto mask = readMask(bound, e, "mask", options["mask"]);
    if (mask) {
      placeMask(e, weights_shape, *mask);
      call.masks = {&*mask, 1};
    }
    const Index count = leading.size();
    float* weights = readBool(options, "returnWeights") ? arena().take<float>(weights_shape.size()) : nullptr;
    const auto input = [&](const BoundVariable& x) { return e.value(repeated(graph, x, leading)); };
    const Value q = input(query), k = input(key), v = input(value);
    const Sequences queries = Sequences::uniform(count, query.shape()[-2]),
                    keys = Sequences::uniform(count, key.shape()[-2]);
    const Value output = e.attention({q, k, v, queries, keys}, 1, call, weights);
    if (weights) results.set("weights", writeTensor(weights_shape, weights));
    return made(output_shape, e.variable(output));
  });
}

BoundVariable* rotaryOf(BoundGraph& graph, const BoundVariable& x, const val& options) {
  return guarded([&] {
    const Shape& shape = x.shape();
    if (shape.rank() < 2) refuseShape("x", "[..., L, D]", shape);
    const Index length = shape[-2], first = readIndex(options, "firstPosition");
    const Sequences sequences = Sequences::uniform(length == 0 ? 0 : shape.rows() / length, length);
    return made(shape, train::rotate(graph.graph(), rotaryTables(options, shape[-1], length, first), x.variable(),
                                     sequences, 1, first));
  });
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_train_attention) {
  emscripten::function("recordAttention", &attentionOf, emscripten::allow_raw_pointers());
  emscripten::function("recordRotary", &rotaryOf, emscripten::allow_raw_pointers());
}

}  // namespace heed::bindings
