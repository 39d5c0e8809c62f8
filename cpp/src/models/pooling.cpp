#include <algorithm>

#include "heed/encoder_model.h"

namespace heed {

void pool(ConstMatrixView hidden, const Sequences& sequences, Pooling pooling, bool normalize, MatrixView output) {
  constexpr float kSmallestNorm = 1e-12f;  // as torch.nn.functional.normalize: a zero vector stays one
  for (Index n = 0; n < sequences.count(); ++n) {
    const Index length = sequences.length(n);
    auto vector = output.row(n);
    if (length == 0) {
      vector.setZero();
      continue;
    }
    const auto rows = hidden.middleRows(sequences.begin(n), length);
    switch (pooling) {
      case Pooling::kMean: {
        vector = rows.row(0);
        for (Index i = 1; i < length; ++i) vector += rows.row(i);
        vector /= static_cast<float>(length);
        break;
      }
      case Pooling::kCls:
        vector = rows.row(0);
        break;
      case Pooling::kLast:
        vector = rows.row(length - 1);
        break;
      case Pooling::kMax:
        vector = rows.colwise().maxCoeff();
        break;
    }
    if (normalize) vector /= std::max(vector.norm(), kSmallestNorm);
  }
}

}  // namespace heed
