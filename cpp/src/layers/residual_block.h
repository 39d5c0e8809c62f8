#pragma once

#include "heed/encoder.h"
#include "heed/evaluator.h"

/// The residual connection around each block of encoder and decoder layers.
namespace heed {

/// The operations between a block and its residual connection. Optional parts may be null.
struct BlockOutput {
  Dropout& dropout;
  Site site;  // read and edited after norm and scale, before dropout
  const LayerNorm* norm = nullptr;
  const LayerScale* scale = nullptr;
};

/// The address of an optional's value, or null.
template <class T>
const T* addressOf(const std::optional<T>& value) {
  return value ? &*value : nullptr;
}

/// A block f with residual connection, norm and dropout. g is f followed by output.norm and output.scale.
///
/// Post-norm: LN(x + Dropout(g(x))). Pre-norm: x + Dropout(g(LN(x))). `norm` may be null. Consumes x (T, E).
/// `block(in, residual)` must return f(in), plus *residual unless that is null.
template <class Block>
Value residualBlock(Evaluator& e, const LayerNorm* norm, bool norm_first, const BlockOutput& output, const Value& x,
                    const Block& block) {
  Evaluator::Scope scope(e);
  const Value in = norm && norm_first ? e.normalize(*norm, x) : x;
  Value sum;
  if (output.dropout.active() || output.norm || output.scale || e.touches(output.site)) {
    Value y = block(in, static_cast<const Value*>(nullptr));
    if (output.norm) y = e.normalize(*output.norm, y, true);
    if (output.scale) y = e.scaleColumns(*output.scale, y);
    y = e.at(output.site, y);
    sum = e.add(x, output.dropout.forward(e, y));
  } else {
    sum = block(in, &x);  // the block's last product adds x, which saves a pass over memory
  }
  return scope.leave(norm && !norm_first ? e.normalize(*norm, sum, true) : sum);
}

}  // namespace heed
