#include "train/losses/loss.h"

#include "core/check.h"

namespace heed::train {

void requireOnePerRow(const char* argument, size_t got, Index rows) {
  if (static_cast<Index>(got) != rows)
    refuseShape(argument, Shape{static_cast<Index>(got)}, Shape{rows}.toString() + ", one per row");
}

}  // namespace heed::train
