#include "ops/broadcast.h"

#include <algorithm>

#include "core/check.h"
#include "heed/attention.h"
#include "ops/mask.h"

namespace heed {

std::optional<Shape> broadcastShape(const Shape& a, const Shape& b) {
  std::vector<Index> extents(static_cast<size_t>(std::max(a.rank(), b.rank())));
  for (size_t back = 1; back <= extents.size(); ++back) {
    const auto axis = -static_cast<Index>(back);
    const Index m = back <= a.extents().size() ? a[axis] : 1, n = back <= b.extents().size() ? b[axis] : 1;
    if (m != n && m != 1 && n != 1) return std::nullopt;
    extents[extents.size() - back] = m == 1 ? n : m;
  }
  return Shape(std::move(extents));
}

std::optional<std::vector<Index>> broadcastStrides(const Shape& shape, const Shape& target) {
  std::vector<Index> strides(static_cast<size_t>(target.rank()));
  if (shape.rank() > target.rank()) return std::nullopt;
  Index stride = 1;
  for (Index back = 1; back <= shape.rank(); ++back) {
    const Index extent = shape[-back];
    if (extent != 1 && extent != target[-back]) return std::nullopt;
    strides[static_cast<size_t>(target.rank() - back)] = extent == 1 ? 0 : stride;
    stride *= extent;
  }
  return strides;
}

std::vector<Index> broadcastSources(const Shape& shape, const Shape& target) {
  const std::optional<std::vector<Index>> strides = broadcastStrides(shape, target);
  if (!strides) throwShapeMismatch("shape", "one that broadcasts to " + target.toString(), shape);
  std::vector<Index> sources(static_cast<size_t>(target.size()));
  for (size_t i = 0; i < sources.size(); ++i) {
    auto rest = static_cast<Index>(i);
    for (Index axis = target.rank() - 1; axis >= 0; --axis) {
      sources[i] += rest % target[axis] * (*strides)[static_cast<size_t>(axis)];
      rest /= target[axis];
    }
  }
  return sources;
}

Mask Mask::broadcast(const char* argument, Kind kind, const void* data, const Shape& shape,
                     const std::array<Index, 4>& target) {
  const Shape scores{target[0], target[1], target[2], target[3]};
  const auto strides = broadcastStrides(shape, scores);
  if (!strides) throwShapeMismatch(argument, "a shape that broadcasts to " + scores.toString(), shape);
  return {kind, data, {(*strides)[0], (*strides)[1], (*strides)[2], (*strides)[3]}};
}

MaskTensor MaskTensor::boolean(const char* argument, const uint8_t* data, const Shape& shape) {
  return {argument, Mask::Kind::kBoolean, data, shape};
}

MaskTensor MaskTensor::additive(const char* argument, const float* data, const Shape& shape, const Value& added) {
  if (hasNaN(data, shape.size()))
    throwInvalid(ErrorCode::kInvalidArgument, argument, "numbers, or -Infinity for forbidden keys", "NaN");
  return {argument, Mask::Kind::kAdditive, data, shape, false, added};
}

std::vector<Mask> broadcastMasks(std::span<const MaskTensor> masks, const Sequences& queries, Index num_heads,
                                 const Sequences& keys) {
  // Without sequences, masks of the batch's lengths still fit.
  const std::array target{queries.count(), num_heads, queries.batchLength(), keys.batchLength()};
  const Shape of_keys{target[0], target[3]};
  std::vector<Mask> all;
  for (const auto& [argument, kind, data, shape, per_key, added] : masks) {
    if (!per_key) {
      all.push_back(Mask::broadcast(argument, kind, data, shape, target));
      continue;
    }
    if (shape != of_keys && !(target[0] == 1 && shape == Shape{target[3]}))
      throwShapeMismatch(argument, of_keys.toString(), shape);
    all.push_back({kind, data, {target[3], 0, 0, 1}});
  }
  return all;
}

}  // namespace heed
