#pragma once

#include <string_view>
#include <vector>

#include "heed/train/optimizer.h"

/// The arithmetic of optimizers on arrays of `count` elements, in PyTorch's order.
/// Notation: w parameter, g gradient, m and v first and second moment.
namespace heed::train {

/// One parameter, for rules that need all of it. Rows are read and written in blocks.
struct WholeParameter {
  const Shape& shape;
  Index rows, width, block;  ///< a matrix (rows, width); at most `block` rows per call
  std::function<const float*(Index row, Index count)> gradient;
  std::function<float*(Index row, Index count)> read;  ///< the values, in memory that `write` copies back
  std::function<void(Index row, Index count)> write;
  std::vector<float>* moments;
  double* scratch;  ///< memory for UpdateRule::scratch() numbers
};

/// The update rule of an optimizer.
struct UpdateRule {
  const char* name;  ///< the name of the class in torch.optim
  /// Whether weight decay multiplies the parameters by 1 - lr wd in each step, rather than being added to the
  /// gradients.
  bool decouples_decay;
  /// The rule's moments for a parameter of this shape, with their names in PyTorch's state dicts.
  std::vector<Moment> (*moments)(const GroupOptions& options, const Shape& shape);
  /// The update of step n, counted from 1, for rules that treat the elements one by one; otherwise null. With
  /// decouples_decay, w is first multiplied by `decay`.
  UpdateStep (*step)(const GroupOptions& options, int64_t n, float decay);
  /// The update of step n, for the other rules.
  void (*whole)(const GroupOptions& options, int64_t n, const WholeParameter& parameter);
  /// The size of the scratch memory of whole(), which allocates nothing, so that no step ends halfway.
  size_t (*scratch)(const Shape& shape);
};

/// Throws kInvalidArgument if there is no rule of that name.
const UpdateRule& updateRule(std::string_view name);

/// Adafactor; see adafactor.cpp.
std::vector<Moment> adafactorMoments(const GroupOptions& options, const Shape& shape);
size_t adafactorScratch(const Shape& shape);
void adafactorStep(const GroupOptions& options, int64_t n, const WholeParameter& parameter);

/// x *= factor.
void scaleBy(float factor, Index count, float* x);

/// Whether no element is infinite or NaN.
bool allFinite(Index count, const float* x);

/// The sum of squares, in double.
double squaresOf(Index count, const float* x);

}  // namespace heed::train
