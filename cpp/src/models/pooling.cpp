#include "heed/encoder_model.h"

namespace heed {

Pooling poolingNamed(std::string_view name) {
  if (name == "mean") return Pooling::kMean;
  if (name == "cls") return Pooling::kCls;
  if (name == "last") return Pooling::kLast;
  if (name == "max") return Pooling::kMax;
  throw Error(ErrorCode::kInvalidArgument, "pooling: got '" + std::string(name) + "'; expected mean, cls, last, max");
}

void pool(ConstMatrixView hidden, const Sequences& sequences, Pooling pooling, MatrixView output) {
  for (Index n = 0; n < sequences.count(); ++n) {
    const Index length = sequences.length(n);
    auto vector = output.row(n);
    if (length == 0) {
      vector.setZero();
      continue;
    }
    const auto rows = hidden.middleRows(sequences.begin(n), length);
    switch (pooling) {
      case Pooling::kMean:
        // Row after row, so that a text's mean does not depend on how Eigen would split the sum.
        vector = rows.row(0);
        for (Index i = 1; i < length; ++i) vector += rows.row(i);
        vector /= static_cast<float>(length);
        break;
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
  }
}

}  // namespace heed
