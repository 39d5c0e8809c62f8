#pragma once

#include "heed/tensor.h"

namespace heed {

/// A handle to a matrix that an Evaluator reads or computes: a view of its elements and, where operations are recorded,
/// its number in the record. Copies refer to the same matrix.
class Value {
 public:
  Value() = default;
  /// `variable`: the matrix's number in the record of the evaluator that computed it; default: not recorded.
  Value(MatrixView matrix, Index variable = kNone)  // NOLINT(google-explicit-constructor)
      : data_(matrix.data()),
        rows_(matrix.rows()),
        columns_(matrix.cols()),
        stride_(matrix.outerStride()),
        variable_(variable) {}
  /// A matrix that must not be given to operations that write to their argument.
  static Value constant(const ConstMatrixView& m, Index variable = kNone) {
    return {heed::view(const_cast<float*>(m.data()), m.rows(), m.cols(), m.outerStride()), variable};
  }

  /// Whether this refers to a matrix.
  explicit operator bool() const { return data_ != nullptr; }
  Index rows() const { return rows_; }
  Index cols() const { return columns_; }
  const float* data() const { return data_; }
  MatrixView view() const { return heed::view(data_, rows_, columns_, stride_); }
  ConstMatrixView values() const { return heed::readOnly(view()); }
  /// The matrix's number in the record; negative if it is not recorded and needs no gradient.
  Index variable() const { return variable_; }
  /// Whether both refer to the same matrix.
  bool operator==(const Value&) const = default;

 private:
  static constexpr Index kNone = -1;
  float* data_ = nullptr;
  Index rows_ = 0, columns_ = 0, stride_ = 0, variable_ = kNone;
};

}  // namespace heed
