#pragma once

#include <vector>

#include "heed/tensor.h"

namespace heed {

/// w_k = base^(-2k / width) for each pair k of features. Angles i w_k must be computed in double: in fp32, the error at
/// position 10^4 is 10^-3.
std::vector<double> sinusoidFrequencies(Index width, double base);

}  // namespace heed
