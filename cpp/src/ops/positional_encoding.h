#pragma once

#include <vector>

#include "heed/tensor.h"

namespace heed {

/// w_k = base^(-2k / width) for each pair k of features. Angles i w_k are formed in double: at position 10^4 a float's
/// would be off by 10^-3.
std::vector<double> sinusoidFrequencies(Index width, double base);

}  // namespace heed
