#pragma once

#include <optional>
#include <vector>

#include "heed/tensor.h"

/// NumPy's broadcasting: shapes are aligned from the right, and axes of extent 1 are repeated.
namespace heed {

/// The shape to which both shapes broadcast, or nothing if they are incompatible.
std::optional<Shape> broadcastShape(const Shape& a, const Shape& b);

/// The strides, in elements, of a row-major tensor of `shape` that is broadcast to `target`; 0 for repeated axes.
/// Nothing if the shapes are incompatible.
std::optional<std::vector<Index>> broadcastStrides(const Shape& shape, const Shape& target);

/// For each element of `target` in order, the index of the element of `shape`, which must be compatible, that
/// broadcasts to it.
std::vector<Index> broadcastSources(const Shape& shape, const Shape& target);

}  // namespace heed
