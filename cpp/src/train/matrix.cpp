#include "heed/train/matrix.h"

#include <algorithm>

#include "core/check.h"

namespace heed::train {

Matrix::Matrix(Index rows, Index columns) : rows_(rows), columns_(columns) {
  const size_t size = requireRoom("activations", {rows, columns});
  // At least one element, so that data() is null only if there is no matrix.
  data_ = std::unique_ptr<float[]>(new float[std::max<size_t>(size, 1)]);
}

Matrix::Matrix(ConstMatrixView values) : Matrix(values.rows(), values.cols()) { view() = values; }

}  // namespace heed::train
