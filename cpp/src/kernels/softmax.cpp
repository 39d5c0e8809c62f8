#include "kernels/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heed {

void softmaxRow(float* x, Index count) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  float highest = kLowest;
  for (Index j = 0; j < count; ++j) highest = std::max(highest, x[j]);
  if (highest == kLowest) {
    std::fill_n(x, count, 0.0f);
    return;
  }
  float sum = 0;
  for (Index j = 0; j < count; ++j) sum += x[j] = std::exp(x[j] - highest);
  for (Index j = 0; j < count; ++j) x[j] /= sum;
}

}  // namespace heed
