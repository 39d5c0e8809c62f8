#pragma once

#include <string_view>
#include <vector>

#include "heed/train/optimizer.h"

/// The arithmetic of optimizers on arrays of `count` elements, in PyTorch's order.
/// Notation: w parameter, g gradient, m and v first and second moment.
namespace heed::train {

/// The update rule of an optimizer.
struct UpdateRule {
  const char* name;  ///< the name of the class in torch.optim
  /// Whether weight decay multiplies the parameters by 1 - lr wd in each step, rather than being added to the
  /// gradients.
  bool decouples_decay;
  /// The names that the rule's moments (none, m, or m and v) have in PyTorch's state dicts.
  std::vector<const char*> (*moments)(const GroupOptions& options);
  /// The update of step n, counted from 1. With decouples_decay, w is first multiplied by `decay`.
  UpdateStep (*step)(const GroupOptions& options, int64_t n, float decay);
};

/// Throws kInvalidArgument if there is no rule of that name.
const UpdateRule& updateRule(std::string_view name);

/// x *= factor.
void scaleBy(float factor, Index count, float* x);

/// Whether no element is infinite or NaN.
bool allFinite(Index count, const float* x);

/// The sum of squares, in double.
double squaresOf(Index count, const float* x);

}  // namespace heed::train
