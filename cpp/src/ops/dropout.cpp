/// Dropout: y = Z * x or Z * x / (1 - p), where the entries of Z are Bernoulli(1 - p), drawn by DropoutDraws.
#include "heed/dropout.h"

#include "core/check.h"
#include "ops/dropout_draws.h"
#include "ops/vectors.h"

namespace heed {

void dropout(ConstMatrixView x, const DropoutOptions& options, const DropoutKey& key, MatrixView output,
             Index first_row, Index first_column) {
  requireRate("p", options.p);
  requireShape("output", readOnly(output), x.rows(), x.cols());
  const float factor = keepFactor(options.p, options.scaling);
  DropoutDraws draws(key, options.p, 0, 0, first_row);
  for (Index t = 0; t < x.rows(); ++t) {
    draws.setRow(first_row + t);
    const float* from = x.data() + t * x.outerStride();
    float* to = output.data() + t * output.outerStride();
    if (first_column % 4 != 0) {
      for (Index e = 0; e < x.cols(); ++e) to[e] = draws.drops(first_column + e) ? 0 : from[e] * factor;
      continue;
    }
    Index column = first_column;
    const auto drop = [&](const simd::Floats<4>& entries) {
      const simd::Floats<4> dropped = draws.dropped(column);
      column += 16;
      return each([](v128_t a, v128_t mask) { return wasm_v128_andnot(a, mask); }, entries * simd::splat(factor),
                  dropped);
    };
    transform<4>(x.cols(), to, drop, from);
  }
}

}  // namespace heed
