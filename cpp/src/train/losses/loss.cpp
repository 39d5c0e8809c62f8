#include "train/losses/loss.h"

#include "core/check.h"

namespace heed::train {

void requireOnePerRow(const char* argument, size_t got, Index rows) {
  if (static_cast<Index>(got) != rows)
    refuseShape(argument, Shape{rows}.toString() + ", one per row", Shape{static_cast<Index>(got)});
}

}  // namespace heed::train
