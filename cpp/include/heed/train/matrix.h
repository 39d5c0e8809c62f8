#pragma once

#include <memory>

#include "heed/tensor.h"

namespace heed::train {

/// A row-major (rows, columns) matrix on the heap. Move-only; its elements are not initialized.
class Matrix {
 public:
  Matrix() = default;
  /// Throws kOutOfMemory.
  Matrix(Index rows, Index columns);
  explicit Matrix(ConstMatrixView values);

  Index rows() const { return rows_; }
  Index cols() const { return columns_; }
  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  MatrixView view() { return heed::view(data_.get(), rows_, columns_); }
  ConstMatrixView values() const { return heed::view(static_cast<const float*>(data_.get()), rows_, columns_); }

 private:
  std::unique_ptr<float[]> data_;
  Index rows_ = 0, columns_ = 0;
};

}  // namespace heed::train
