#pragma once

#include <optional>
#include <vector>

#include "heed/tensor.h"

/// NumPy's broadcasting: shapes are aligned from the right, and axes of extent 1 repeat.
namespace heed {

/// The shape that both broadcast to, nothing where they do not.
std::optional<Shape> broadcastShape(const Shape& a, const Shape& b);

/// The elements that a row-major tensor of `shape`, broadcast to `target`, steps along each axis of `target`: 0 along
/// one that it repeats. Nothing where it does not broadcast.
std::optional<std::vector<Index>> broadcastStrides(const Shape& shape, const Shape& target);

}  // namespace heed
