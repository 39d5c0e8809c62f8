#pragma once

#include <functional>
#include <vector>

#include "core/elementary.h"
#include "heed/train/graph.h"
#include "heed/train/losses.h"
#include "ops/vectors.h"

/// Functions that several losses use.
namespace heed::train {

/// The (1, 1) value of a loss.
inline Matrix scalarOf(double value) {
  Matrix m(1, 1);
  *m.data() = static_cast<float>(value);
  return m;
}

/// The gradient of a loss as a number.
inline double seedOf(const Matrix& gradient) { return static_cast<double>(*gradient.data()); }

/// The argument `exampleWeights` for entries of this shape. Throws kInvalidArgument unless all are finite and at least
/// 0.
losses::Factors readWeights(const losses::Arguments& given, const Shape& shape);
/// The argument `exposure` for the entries of `input`. Throws kInvalidArgument unless all are finite and above 0.
losses::Factors readExposure(const losses::Arguments& given);

/// The factors on C classes in the argument with this name; none, which means ones, if it is null.
losses::Factors classFactors(const losses::Arguments& given, const char* name, Index classes);

/// The divisor of a weighted mean over `count` entries: the sum of the weights. 1 if all weights are 0, so that the
/// mean is 0.
double totalOf(const losses::Factors& weights, Index count);

/// A loss at one entry, and its derivatives by the variables in their order.
struct LossEntry {
  double value;
  double slopes[3] = {};
};

/// Computes entry i from the values of the variables there.
using LossFormula = std::function<LossEntry(Index i, const double* values)>;

/// L = sum_i w_i l_i / sum_i w_i over all entries, with the argument `exampleWeights`; without it, the mean. Sums and
/// derivatives are computed in double precision. `names`: the variables, at most three, of the same shape.
Variable elementwiseLoss(Graph& graph, const losses::Arguments& given, std::initializer_list<const char*> names,
                         LossFormula formula);

/// e^(x / 2) for all entries. Its square overflows where e^x does, whereas simd::exp(x) is limited to arguments below
/// 88.3. `sign`: 1, or -1 for e^(-x / 2).
std::vector<float> halfExponentials(const Matrix& x, float sign = 1);

}  // namespace heed::train
