/// Dropout: y = Z * x or Z * x / (1 - p), where the entries of Z are Bernoulli(1 - p), drawn by DropoutRow::drops().
#include "heed/dropout.h"

#include "core/check.h"

namespace heed {

DropoutRow::DropoutRow(const DropoutKey& key, Index sequence, Index head, Index row)
    : counter_{0, static_cast<uint32_t>(row), static_cast<uint32_t>(head), static_cast<uint32_t>(sequence)} {
  // The step selects a Philox key, so that the counter can hold the position of the entry.
  const auto step = philox({static_cast<uint32_t>(key.step), static_cast<uint32_t>(key.step >> 32), 0, 0}, key.seed);
  key_ = uint64_t{step[1]} << 32 | step[0];
  words_ = philox(counter_, key_);
}

bool DropoutRow::drops(Index column, float p) {
  const auto block = static_cast<uint32_t>(column / 4);
  if (block != counter_[0]) {
    counter_[0] = block;
    words_ = philox(counter_, key_);
  }
  return static_cast<float>(words_[static_cast<size_t>(column % 4)] >> 8) * 0x1p-24f < p;
}

void dropout(ConstMatrixView x, const DropoutOptions& options, const DropoutKey& key, MatrixView output,
             Index first_row, Index first_column) {
  requireRate("p", options.p);
  requireShape("output", readOnly(output), x.rows(), x.cols());
  const float scale = keptScale(options.p, options.scaling);
  for (Index t = 0; t < x.rows(); ++t) {
    DropoutRow draws(key, 0, 0, first_row + t);
    for (Index e = 0; e < x.cols(); ++e) output(t, e) = draws.drops(first_column + e, options.p) ? 0 : x(t, e) * scale;
  }
}

}  // namespace heed
