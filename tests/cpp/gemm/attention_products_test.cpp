#include "gemm/attention_products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gemm/random_floats.h"

namespace heed {
namespace {

/// Heights of row blocks that both builds have.
constexpr Index kHeights[] = {1, 2, 3, 4, 5};

struct Matrix {
  Matrix(Index r, Index c, unsigned seed) : rows(r), cols(c), values(randomFloats(r * c, seed)) {}
  ConstMatrixView view() const { return heed::view(values.data(), rows, cols); }
  Index rows, cols;
  std::vector<float> values;
};

Index total(const std::vector<Range>& ranges) {
  Index count = 0;
  for (const Range& range : ranges) count += range.count();
  return count;
}

/// diag(factors) a B in double, B the given rows and columns of b.
Eigen::MatrixXd expected(ConstMatrixView a, const Eigen::MatrixXd& b, const std::vector<Range>& rows,
                         const std::vector<Range>& columns, const std::vector<float>& factors) {
  Eigen::MatrixXd part(total(rows), total(columns));
  Index i = 0;
  for (const Range& row : rows) {
    for (Index k = row.begin; k < row.end; ++k, ++i) {
      Index j = 0;
      for (const Range& column : columns) {
        part.row(i).segment(j, column.count()) = b.row(k).segment(column.begin, column.count());
        j += column.count();
      }
    }
  }
  return Eigen::Map<const Eigen::VectorXf>(factors.data(), a.rows()).cast<double>().asDiagonal() *
         (a.cast<double>() * part);
}

/// Multiplies with an `out` that is wider than the columns by `room`. Checks the result, and that nothing else is
/// written.
void check(const Panels& panels, const Eigen::MatrixXd& b, const std::vector<Range>& rows,
           const std::vector<Range>& columns, Index room = 0) {
  for (const Index height : kHeights) {
    const Matrix a(height, total(rows), 3);
    const std::vector<float> factors = randomFloats(height, 4);
    const Index width = total(columns) + room, stride = width + 3;
    std::vector<float> out(static_cast<size_t>(height * stride), 77.0f);
    std::vector<uint32_t> words(a.values.size() + 1);
    multiplySelected(a.view(), panels, rows, columns, factors.data(), view(out.data(), height, width, stride),
                     words.data());
    const Eigen::MatrixXd product = expected(a.view(), b, rows, columns, factors);
    for (Index r = 0; r < height; ++r) {
      for (Index j = 0; j < stride; ++j) {
        const float x = out[static_cast<size_t>(r * stride + j)];
        if (j < product.cols()) {
          EXPECT_NEAR(x, product(r, j), 1e-5) << height << " rows, element " << r << ", " << j;
        } else {
          EXPECT_EQ(x, j < width ? 0.0f : 77.0f) << height << " rows, element " << r << ", " << j;
        }
      }
    }
  }
}

TEST(AttentionProducts, AgreeWithDoubleInEveryHeightAndWidth) {
  for (const Index depth : {0, 1, 4, 7, 32}) {
    for (const Index columns : {1, 7, 8, 9, 16, 31, 32, 45}) {
      Arena arena;
      const Matrix key(columns, depth, 1), value(depth, columns, 2);
      const std::vector<Range> k = {{0, depth}}, all = {{0, columns}};
      check(packKeys(key.view(), {nullptr, columns}, arena), key.view().transpose().cast<double>(), k, all);
      check(packValues(value.view(), {nullptr, depth}, arena), value.view().cast<double>(), k, all);
      // Scores are filled up to whole panels.
      check(packKeys(key.view(), {nullptr, columns}, arena), key.view().transpose().cast<double>(), k, all,
            (columns + 7) / 8 * 8 - columns);
    }
  }
}

TEST(AttentionProducts, TakeRangesOfRowsAndColumns) {
  Arena arena;
  const Matrix value(40, 37, 1);
  const Panels panels = packValues(value.view(), {nullptr, 40}, arena);
  const Eigen::MatrixXd b = value.view().cast<double>();
  for (const std::vector<Range>& rows :
       {std::vector<Range>{}, {{0, 0}}, {{3, 4}}, {{0, 8}, {16, 24}}, {{1, 2}, {5, 5}, {9, 40}}}) {
    for (const std::vector<Range>& columns :
         {std::vector<Range>{}, {{0, 37}}, {{8, 16}}, {{0, 8}, {32, 37}}, {{0, 8}, {16, 24}, {32, 35}}})
      check(panels, b, rows, columns);
  }
}

TEST(AttentionProducts, LeavingOutZerosChangesNoBit) {
  Arena arena;
  const Matrix value(24, 20, 1);
  const Panels panels = packValues(value.view(), {nullptr, 24}, arena);
  const Range all{0, 24}, columns{0, 20}, parts[] = {{0, 8}, {16, 24}};
  for (const Index height : kHeights) {
    Matrix a(height, 24, 2);
    std::vector<float> some;
    for (Index r = 0; r < height; ++r) {
      float* row = &a.values[static_cast<size_t>(24 * r)];
      std::fill_n(row + 8, 8, 0.0f);
      some.insert(some.end(), row, row + 8);
      some.insert(some.end(), row + 16, row + 24);
    }
    const std::vector<float> factors = randomFloats(height, 4);
    std::vector<uint32_t> words(a.values.size());
    RowMajorMatrix whole(height, 20), parted(height, 20);
    multiplySelected(a.view(), panels, {&all, 1}, {&columns, 1}, factors.data(), view(whole.data(), height, 20),
                     words.data());
    multiplySelected(view(static_cast<const float*>(some.data()), height, 16), panels, parts, {&columns, 1},
                     factors.data(), view(parted.data(), height, 20), words.data());
    EXPECT_TRUE((whole.array() == parted.array()).all()) << height;
    // The other rows of a block do not change a row's result, either.
    RowMajorMatrix alone(1, 20);
    multiplySelected(view(static_cast<const float*>(a.values.data()), 1, 24), panels, {&all, 1}, {&columns, 1},
                     factors.data(), view(alone.data(), 1, 20), words.data());
    EXPECT_TRUE((whole.row(0).array() == alone.row(0).array()).all()) << height;
  }
}

TEST(AttentionProducts, PackTheListedRows) {
  Arena arena;
  const Matrix rows(20, 13, 1);
  const Index indices[] = {0, 2, 3, 7, 8, 9, 11, 15, 18, 19};
  const RowList list{indices, 10};
  EXPECT_EQ(list.before(0), 0);
  EXPECT_EQ(list.before(8), 4);
  EXPECT_EQ(list.before(20), 10);
  Eigen::MatrixXd chosen(10, 13);
  for (Index i = 0; i < 10; ++i) chosen.row(i) = rows.view().row(indices[i]).cast<double>();
  check(packKeys(rows.view(), list, arena), chosen.transpose(), {{0, 13}}, {{0, 10}});
  check(packValues(rows.view(), list, arena), chosen, {{0, 10}}, {{0, 13}});
}

TEST(AttentionProducts, KnowWhetherTheValuesAreFinite) {
  Arena arena;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const Index at : {0, 12, 38}) {
      Matrix value(3, 13, 1);
      EXPECT_TRUE(packValues(value.view(), {nullptr, 3}, arena).finite);
      value.values[static_cast<size_t>(at)] = bad;
      EXPECT_FALSE(packValues(value.view(), {nullptr, 3}, arena).finite) << at;
    }
  }
}

TEST(AttentionProducts, CutQueriesIntoFewRowBlocks) {
  EXPECT_EQ(queryBlocks(0), 0);
  EXPECT_EQ(queryBlocks(1), 1);
  for (const Index queries : {7, 60, 1000}) {
    const Index blocks = queryBlocks(queries);
    EXPECT_LE(queries, blocks * kMaxQueries);
    EXPECT_GT(queries, (blocks - 1) * 5);
  }
}

}  // namespace
}  // namespace heed
