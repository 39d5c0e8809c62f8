#include "heed/tensor.h"

#include <algorithm>
#include <limits>

#include "core/check.h"

namespace heed {

namespace {

/// Product of the first `count` extents; 0 if one of them is 0, even if the others would overflow.
Index product(const Shape& shape, Index count) {
  constexpr Index kMaxFloats = std::numeric_limits<Index>::max() / static_cast<Index>(sizeof(float));
  const auto end = shape.extents().begin() + count;
  if (std::find(shape.extents().begin(), end, 0) != end) return 0;
  Index size = 1;
  for (auto extent = shape.extents().begin(); extent != end; ++extent) {
    if (*extent < 0) throwInvalid(ErrorCode::kInvalidArgument, "shape", "extents >= 0", shape.toString());
    if (size > kMaxFloats / *extent) {
      throwInvalid(ErrorCode::kOutOfMemory, "shape", "at most " + std::to_string(kMaxFloats) + " elements",
                   shape.toString());
    }
    size *= *extent;
  }
  return size;
}

}  // namespace

Index Shape::size() const { return product(*this, rank()); }

Index Shape::rows() const { return product(*this, std::max<Index>(rank() - 1, 0)); }

void Shape::throwNoAxis(Index axis) const {
  throwShapeMismatch("shape", "at least " + std::to_string(axis < 0 ? -axis : axis + 1) + " axes", *this);
}

std::string Shape::toString() const {
  std::string text = "[";
  for (const Index extent : extents_) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(extent);
  }
  return text + "]";
}

Sequences Sequences::uniform(Index count, Index length) {
  (void)Shape{count, length}.size();  // throws for numbers that are negative or whose product overflows
  std::vector<Index> offsets(static_cast<size_t>(count) + 1);
  for (Index n = 0; n <= count; ++n) offsets[static_cast<size_t>(n)] = n * length;
  return Sequences(std::move(offsets), length);
}

Sequences Sequences::ofLengths(const std::vector<Index>& lengths) {
  std::vector<Index> offsets = {0};
  offsets.reserve(lengths.size() + 1);
  for (const Index length : lengths) {
    requireAtLeast("lengths", length, 0);
    if (length > std::numeric_limits<Index>::max() - offsets.back())
      throwInvalid(ErrorCode::kOutOfMemory, "lengths",
                   "at most " + std::to_string(std::numeric_limits<Index>::max()) + " rows in total", "more than that");
    offsets.push_back(offsets.back() + length);
  }
  return Sequences(std::move(offsets));
}

Index Sequences::maxLength() const {
  Index longest = 0;
  for (Index n = 0; n < count(); ++n) longest = std::max(longest, length(n));
  return longest;
}

}  // namespace heed
