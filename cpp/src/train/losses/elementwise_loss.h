#pragma once

#include <functional>
#include <vector>

#include "train/losses/loss.h"

/// Losses that are a weighted mean over the entries of tensors of the same shape.
namespace heed::train {

/// A loss at one entry, and its derivatives by the variables in their order.
struct LossEntry {
  double value;
  double slopes[3] = {};
};

/// Computes entry i from the values of the variables there.
using LossFormula = std::function<LossEntry(Index i, const double* values)>;

/// L = sum_i w_i l_i / sum_i w_i over all entries; without weights, the mean. Sums and derivatives are computed in
/// double precision. At most three variables, of the same shape; `names`: their names, for errors.
Variable elementwiseLoss(Graph& graph, const std::vector<Variable>& variables, const std::vector<const char*>& names,
                         losses::Factors weights, LossFormula formula);

/// e^(x / 2) for all entries. Its square overflows where e^x does, whereas simd::exp(x) is limited to arguments below
/// 88.3. `sign`: 1, or -1 for e^(-x / 2).
std::vector<float> halfExponentials(const Matrix& x, float sign = 1);

}  // namespace heed::train
