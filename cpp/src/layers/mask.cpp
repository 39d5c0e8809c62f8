#include "check.h"
#include "heed/attention.h"

namespace heed {

Mask Mask::broadcast(const char* argument, Kind kind, const void* data, const Shape& shape,
                     const std::array<Index, 4>& target) {
  Mask mask{kind, data, {0, 0, 0, 0}};
  bool fits = shape.rank() <= 4;
  Index stride = 1;
  for (Index axis = 3; fits && axis >= 4 - shape.rank(); --axis) {
    const Index extent = shape[axis - 4 + shape.rank()];
    fits = extent == 1 || extent == target[static_cast<size_t>(axis)];
    mask.strides[static_cast<size_t>(axis)] = extent == 1 ? 0 : stride;
    stride *= extent;
  }
  if (!fits) {
    refuse(ErrorCode::kShapeMismatch, argument, "shape " + shape.toString(),
           "one that broadcasts to " + Shape{target[0], target[1], target[2], target[3]}.toString());
  }
  return mask;
}

}  // namespace heed
