#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "heed/error.h"

/// Shapes and views. Data is row-major fp32; views do not own it.
/// Notation: N sequences, L rows of one sequence, T rows of all sequences, E columns.
namespace heed {

using Index = Eigen::Index;

/// The extents of a tensor, outermost axis first.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Index> extents) : extents_(extents) {}
  explicit Shape(std::vector<Index> extents) : extents_(std::move(extents)) {}

  Index rank() const { return static_cast<Index>(extents_.size()); }
  /// Extent of `axis`; negative axes count from the end, as in PyTorch. Throws kShapeMismatch for an axis that the
  /// shape does not have.
  Index operator[](Index axis) const {
    const Index at = axis < 0 ? axis + rank() : axis;
    if (at < 0 || at >= rank()) throwNoAxis(axis);
    return extents_[static_cast<size_t>(at)];
  }
  /// Number of elements. Throws kOutOfMemory if that many floats cannot be addressed.
  Index size() const;
  /// The number of rows and of columns of the tensor viewed as a matrix: the product of all extents but the last, and
  /// the last extent. Both are 1 without axes.
  Index rows() const;
  Index columns() const { return rank() == 0 ? 1 : extents_.back(); }
  const std::vector<Index>& extents() const { return extents_; }
  /// "[2, 3, 8]"
  std::string toString() const;

  bool operator==(const Shape&) const = default;

 private:
  [[noreturn]] void throwNoAxis(Index axis) const;

  std::vector<Index> extents_;
};

using RowMajorMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
/// A (rows, columns) view of floats. Rows are `outerStride()` floats apart, so that a view can also cover the columns
/// of one head.
using MatrixView = Eigen::Map<RowMajorMatrix, Eigen::Unaligned, Eigen::OuterStride<>>;
using ConstMatrixView = Eigen::Map<const RowMajorMatrix, Eigen::Unaligned, Eigen::OuterStride<>>;

inline MatrixView view(float* data, Index rows, Index columns, Index stride) {
  return MatrixView(data, rows, columns, Eigen::OuterStride<>(stride));
}
inline MatrixView view(float* data, Index rows, Index columns) { return view(data, rows, columns, columns); }
inline ConstMatrixView view(const float* data, Index rows, Index columns, Index stride) {
  return ConstMatrixView(data, rows, columns, Eigen::OuterStride<>(stride));
}
inline ConstMatrixView view(const float* data, Index rows, Index columns) { return view(data, rows, columns, columns); }
/// A read-only view of m.
inline ConstMatrixView readOnly(const MatrixView& m) { return view(m.data(), m.rows(), m.cols(), m.outerStride()); }

/// Rows [begin, end) of a matrix.
template <class View>
View rowsOf(View all, Index begin, Index end) {
  return view(all.data() + begin * all.outerStride(), end - begin, all.cols(), all.outerStride());
}

/// Rows [begin, end) of the columns of head h. Empty ranges have the address of `all`, because their own address could
/// be out of bounds.
template <class View>
View headRows(View all, Index begin, Index end, Index h, Index width) {
  const Index offset = begin < end ? begin * all.outerStride() + h * width : 0;
  return view(all.data() + offset, end - begin, width, all.outerStride());
}

/// The first row of part i when `rows` rows are divided into `parts` parts whose sizes differ by at most one. Returns
/// `rows` for i = parts.
inline Index evenPart(Index rows, Index parts, Index i) { return rows / parts * i + std::min(i, rows % parts); }

/// The row ranges of N sequences in a matrix of T concatenated rows: sequence n has the rows [begin(n), end(n)). There
/// is no padding; a batch [N, L, E] is the special case in which all sequences have L rows.
class Sequences {
 public:
  /// N sequences of `length` rows each. Throws kInvalidArgument for negative numbers, kOutOfMemory if that many rows
  /// cannot be addressed.
  static Sequences uniform(Index count, Index length);
  /// One sequence per entry of `lengths`. Throws kInvalidArgument for negative lengths, kOutOfMemory if the number of
  /// rows overflows Index.
  static Sequences ofLengths(const std::vector<Index>& lengths);

  Index count() const { return static_cast<Index>(offsets_.size()) - 1; }
  Index begin(Index n) const { return offsets_[static_cast<size_t>(n)]; }
  Index end(Index n) const { return offsets_[static_cast<size_t>(n) + 1]; }
  Index length(Index n) const { return end(n) - begin(n); }
  /// T, the number of rows of all sequences.
  Index totalRows() const { return offsets_.back(); }
  Index maxLength() const;
  /// The extent L of the batch [N, L, ...]: maxLength(), or the length that uniform() was given if there are no
  /// sequences.
  Index batchLength() const { return count() == 0 ? empty_length_ : maxLength(); }

 private:
  explicit Sequences(std::vector<Index> offsets, Index empty_length = 0)
      : offsets_(std::move(offsets)), empty_length_(empty_length) {}
  std::vector<Index> offsets_;
  Index empty_length_;
};

}  // namespace heed
