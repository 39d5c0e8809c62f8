#pragma once

#include <random>
#include <vector>

#include "heed/tensor.h"

namespace heed {

/// Normally distributed numbers, the same for the same seed.
inline std::vector<float> randomFloats(Index count, unsigned seed, float scale = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

}  // namespace heed
