/// Sinusoidal positions: row i is [sin(w_0 i), cos(w_0 i), sin(w_1 i), ...] with w_k = base^(-2k / E), k from
/// `first_k`.
#include "heed/positional_encoding.h"

#include "core/check.h"
#include "core/elementary.h"

namespace heed {

std::vector<double> sinusoidFrequencies(Index width, double base, Index first_k) {
  std::vector<double> all;
  for (Index k = 0; 2 * k < width; ++k)
    all.push_back(elementary::pow(base, -2.0 * static_cast<double>(first_k + k) / static_cast<double>(width)));
  return all;
}

void positionalEncoding(double base, MatrixView output, Index first_position, Index first_k) {
  requireBase(base);
  const std::vector<double> w = sinusoidFrequencies(output.cols(), base, first_k);
  for (Index i = 0; i < output.rows(); ++i) {
    for (Index column = 0; column < output.cols(); ++column) {
      const double angle = static_cast<double>(first_position + i) * w[static_cast<size_t>(column / 2)];
      output(i, column) = static_cast<float>(column % 2 == 0 ? elementary::sin(angle) : elementary::cos(angle));
    }
  }
}

}  // namespace heed
