#include "gemm/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "gemm/random_floats.h"
#include "gemm/rotation.h"
#include "gemm/tile.h"
#include "gemm/weights/float32.h"
#include "gemm/weights/int8.h"
#include "support.h"

namespace heed {
namespace {

using test::writeInt8;

struct Case {
  Index rows, depth, out;
};

// Heights around those of row blocks and chunks, depths around those of k-steps and vectors, widths around panels.
const Case kCases[] = {{1, 1, 1},    {1, 7, 9},    {1, 64, 40}, {1, 33, 32},  {2, 3, 17},  {2, 16, 32}, {3, 5, 8},
                       {4, 8, 7},    {5, 9, 26},   {6, 17, 10}, {7, 4, 3},    {8, 26, 16}, {9, 66, 5},  {11, 2, 24},
                       {13, 31, 18}, {26, 12, 34}, {127, 6, 8}, {129, 10, 9}, {257, 3, 5}};

/// Operands whose strides are not multiples of the vector size.
struct Operands {
  explicit Operands(const Case& c, unsigned seed = 1)
      : a_stride(c.depth + 3),
        c_stride(c.out + 5),
        a(randomFloats(c.rows * a_stride + 1, seed)),
        w(randomFloats(c.out * c.depth, seed + 1, 0.3f)),
        bias(randomFloats(c.out, seed + 2)),
        residual(randomFloats(c.rows * c_stride, seed + 3)),
        out(static_cast<size_t>(c.rows * c_stride), 77.0f),
        shape(c) {}
  ConstMatrixView left() const {
    return view(static_cast<const float*>(a.data()) + 1, shape.rows, shape.depth, a_stride);
  }
  MatrixView result() { return view(out.data(), shape.rows, shape.out, c_stride); }
  std::unique_ptr<PackedWeight> weight(Precision precision) const {
    auto packed = PackedWeight::create(shape.out, shape.depth, precision);
    packed->write(0, shape.out, w.data());
    return packed;
  }
  double exact(Index i, Index j) const {
    double sum = 0;
    for (Index k = 0; k < shape.depth; ++k)
      sum += static_cast<double>(left()(i, k)) * w[static_cast<size_t>(j * shape.depth + k)];
    return sum;
  }
  Index a_stride, c_stride;
  std::vector<float> a, w, bias, residual, out;
  Case shape;
};

std::string describe(const Case& c) {
  return std::to_string(c.rows) + " x " + std::to_string(c.depth) + " x " + std::to_string(c.out);
}

TEST(Matmul, AgreesWithDouble) {
  Context context;
  for (const Case& c : kCases) {
    Operands o(c);
    matmul(o.left(), *o.weight(Precision::kFloat32), {}, o.result(), context);
    for (Index i = 0; i < c.rows; ++i) {
      for (Index j = 0; j < c.out; ++j) {
        // Each of K additions errs by half an epsilon of a sum whose terms have magnitude 0.3.
        EXPECT_NEAR(o.result()(i, j), o.exact(i, j), 1e-6 * (1 + std::sqrt(c.depth)))
            << describe(c) << " at " << i << ", " << j;
      }
      for (Index j = c.out; j < o.c_stride; ++j)
        EXPECT_EQ(o.out[static_cast<size_t>(i * o.c_stride + j)], 77.0f) << describe(c) << " wrote past a row";
    }
  }
}

TEST(Matmul, AppliesBiasThenActivationThenResidual) {
  Context context;
  for (const Precision precision : {Precision::kFloat32, Precision::kInt8}) {
    for (const Case& c : kCases) {
      Operands o(c), plain(c);
      const auto weight = o.weight(precision);
      matmul(plain.left(), *weight, {}, plain.result(), context);
      matmul(o.left(), *weight, {o.bias.data(), Activation::kTanh, o.residual.data(), o.c_stride}, o.result(), context);
      for (Index i = 0; i < c.rows; ++i) {
        for (Index j = 0; j < c.out; ++j) {
          const double expected =
              std::tanh(static_cast<double>(plain.result()(i, j)) + o.bias[static_cast<size_t>(j)]) +
              o.residual[static_cast<size_t>(i * o.c_stride + j)];
          EXPECT_NEAR(o.result()(i, j), expected, 2e-6) << describe(c);
        }
      }
    }
  }
}

TEST(Matmul, AddsAResidualInPlace) {
  Context context;
  const Case c{7, 9, 11};
  Operands o(c), apart(c);
  const auto weight = o.weight(Precision::kFloat32);
  matmul(apart.left(), *weight, {nullptr, Activation::kIdentity, o.out.data(), o.c_stride}, apart.result(), context);
  matmul(o.left(), *weight, {nullptr, Activation::kIdentity, o.out.data(), o.c_stride}, o.result(), context);
  EXPECT_EQ(o.out, apart.out);
}

TEST(Matmul, GivesARowTheSameBitsWhereverItStands) {
  Context context;
  for (const Precision precision : {Precision::kFloat32, Precision::kInt8}) {
    const Case all{131, 37, 43};
    Operands o(all);
    const auto weight = o.weight(precision);
    const Epilogue epilogue{o.bias.data(), Activation::kGelu, nullptr, 0};
    matmul(o.left(), *weight, epilogue, o.result(), context);
    for (Index rows = 1; rows <= 14; ++rows) {
      for (const Index first : {Index{0}, Index{5}, all.rows - rows}) {
        RowMajorMatrix part(rows, all.out);
        matmul(view(o.left().data() + first * o.a_stride, rows, all.depth, o.a_stride), *weight, epilogue,
               view(part.data(), rows, all.out), context);
        EXPECT_TRUE((part.array() == o.result().middleRows(first, rows).array()).all())
            << rows << " rows from " << first;
      }
    }
  }
}

TEST(Matmul, GivesTheSameBitsInRowBlocksOfAnyHeight) {
  Context context;
  const Index usual = block_rows;
  for (const Precision precision : {Precision::kFloat32, Precision::kInt8}) {
    for (const Case& c : kCases) {
      Operands usually(c), others(c);
      const auto weight = usually.weight(precision);
      matmul(usually.left(), *weight, {}, usually.result(), context);
      block_rows = usual == kBlockRows ? kBlockRows - 1 : kBlockRows;
      matmul(others.left(), *weight, {}, others.result(), context);
      block_rows = usual;
      EXPECT_EQ(usually.out, others.out) << describe(c);
    }
  }
}

TEST(Matmul, ReachesEveryRowOfLargeOperands) {
  // Row counts whose product with the number of blocks is beyond 32 bits.
  for (const Index rows : {Index{1} << 19, Index{600'000}, Index{1} << 20}) {
    const Case c{rows, 2, 3};
    std::vector<float> a(static_cast<size_t>(2 * rows)), out(static_cast<size_t>(3 * rows));
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 1009);
    const std::vector<float> w = {1, 0, 0, 1, 1, 1};
    Float32Weight weight(3, 2);
    weight.write(0, 3, w.data());
    Context context;
    matmul(view(static_cast<const float*>(a.data()), rows, 2), weight, {}, view(out.data(), rows, 3), context);
    Index wrong = 0;
    for (Index i = 0; i < rows; ++i) {
      const float* x = &a[static_cast<size_t>(2 * i)];
      const float* y = &out[static_cast<size_t>(3 * i)];
      wrong += y[0] != x[0] || y[1] != x[1] || y[2] != x[0] + x[1];
    }
    EXPECT_EQ(wrong, 0) << c.rows << " rows";
  }
}

// Weights of both formats in any order: each form of the left operand is packed once, for the first weight that reads
// it.
TEST(Matmul, RunsSeveralProductsOfOneOperandAndMixesFormats) {
  Context context;
  constexpr Precision kFloat = Precision::kFloat32, kInt8 = Precision::kInt8;
  const Precision orders[][4] = {
      {kFloat, kInt8, kFloat, kInt8}, {kInt8, kInt8, kFloat, kFloat}, {kInt8, kFloat, kFloat, kInt8}};
  for (const Index rows : {10, 131}) {  // one chunk and two
    for (const auto& order : orders) {
      std::vector<Operands> all, alone;
      std::vector<std::unique_ptr<PackedWeight>> weights;
      std::vector<Product> products;
      for (size_t j = 0; j < std::size(order); ++j) {
        const Case c{rows, 20, static_cast<Index>(7 + 3 * j)};
        all.emplace_back(c, 10 * static_cast<unsigned>(j));
        alone.emplace_back(c, 10 * static_cast<unsigned>(j));
      }
      for (size_t j = 0; j < std::size(order); ++j) {
        weights.push_back(all[j].weight(order[j]));
        products.push_back({weights[j].get(), {.bias = all[j].bias.data()}, all[j].result()});
        matmul(all[0].left(), *weights[j], products[j].epilogue, alone[j].result(), context);
      }
      matmul(all[0].left(), products, context);
      for (size_t j = 0; j < std::size(order); ++j)
        EXPECT_EQ(all[j].out, alone[j].out) << rows << " rows, product " << j;
    }
  }
}

TEST(Matmul, LeavesOutProductsOfNothing) {
  Context context;
  const Case c{3, 4, 5};
  matmul(Operands(c).left(), std::span<const Product>(), context);
}

TEST(Int8Matmul, AgreesWithTheSameIntegersInDouble) {
  Context context;
  for (const Case& c : kCases) {
    Operands o(c);
    const auto weight = o.weight(Precision::kInt8);
    matmul(o.left(), *weight, {}, o.result(), context);
    std::vector<float> w(o.w.size());
    weight->read(0, c.out, w.data());
    for (Index j = 0; j < c.out; ++j)
      rotateWeights(w.data() + j * c.depth, c.depth, Rotation::kWithSigns, w.data() + j * c.depth);
    RowMajorMatrix rotated = o.left();
    for (Index i = 0; i < c.rows; ++i) {
      rotate(rotated.data() + i * c.depth, c.depth, Rotation::kWithSigns, rotated.data() + i * c.depth);
      const auto row = rotated.row(i);
      const float low = row.minCoeff(), scale = (row.maxCoeff() - low) / 127, inverse = scale > 0 ? 1 / scale : 0;
      for (Index j = 0; j < c.out; ++j) {
        double sum = 0;
        for (Index k = 0; k < c.depth; ++k) {
          const double q = std::nearbyint((row(k) - low) * inverse);
          EXPECT_TRUE(q >= 0 && q <= 127);
          sum += (scale * q + low) * w[static_cast<size_t>(j * c.depth + k)];
        }
        EXPECT_NEAR(o.result()(i, j), sum, 1e-5 * (1 + std::sqrt(c.depth))) << describe(c) << " at " << i << ", " << j;
      }
    }
  }
}

TEST(Int8Matmul, IsCloseToTheExactProduct) {
  Context context;
  const Case c{16, 384, 64};
  Operands o(c);
  matmul(o.left(), *o.weight(Precision::kInt8), {}, o.result(), context);
  double error = 0, norm = 0;
  for (Index i = 0; i < c.rows; ++i) {
    for (Index j = 0; j < c.out; ++j) {
      error += std::pow(o.result()(i, j) - o.exact(i, j), 2);
      norm += std::pow(o.exact(i, j), 2);
    }
  }
  EXPECT_LT(std::sqrt(error / norm), 0.02);
}

TEST(Int8Matmul, HoldsTheExtremesWithoutSaturation) {
  // Eight weights whose products with 127 just fit into 16 bits, eight whose products just do not, and the largest
  // ones.
  struct Pattern {
    std::vector<signed char> weights;
    bool is_wide;
  };
  const Pattern patterns[] = {{{33, 33, 32, 32, 32, 32, 32, 32}, false},
                              {{33, 33, 33, 32, 32, 32, 32, 32}, true},
                              {{-33, -33, -33, -32, -32, -32, -32, -32}, true},
                              {{127}, true},
                              {{127, 127, 4, 0, -127, -127, -4, 0}, false},
                              {{127, 127, 4, 0, -127, -127, -5, 0}, true},
                              {{-127, 127}, true},
                              {{-128}, true},
                              {{127, 127, -127, -127, 1, -1}, true}};
  Context context;
  constexpr Index kDepth = 3072, kRows = 13;
  Int8Weight weight(1, kDepth);
  for (const auto& [pattern, is_wide] : patterns) {  // each overwrites the previous one, whose traits must not remain
    std::vector<signed char> w(kDepth);
    for (size_t k = 0; k < w.size(); ++k) w[k] = pattern[(k / 4 * 2 + k % 2) % pattern.size()];
    const float one = 1;
    writeInt8(weight, weight.in(), 0, 1, w.data(), &one);
    EXPECT_EQ(weight.isWide(0), is_wide);
    for (Index rows = 1; rows <= kRows; ++rows) {
      RowMajorMatrix a = RowMajorMatrix::Constant(rows, kDepth, 127), out(rows, 1);
      a.col(0).setZero();
      matmul(view(static_cast<const float*>(a.data()), rows, kDepth), weight, {}, view(out.data(), rows, 1), context);
      double expected = 0;
      for (size_t k = 1; k < w.size(); ++k) expected += 127.0 * w[k];
      EXPECT_TRUE((out.array() == static_cast<float>(expected)).all()) << rows << " rows, expected " << expected;
    }
  }
}

TEST(Int8Matmul, HandlesConstantRowsAndShowsWhatIsNotFinite) {
  Context context;
  for (const Index depth : {5, 16, 22}) {
    RowMajorMatrix a = RowMajorMatrix::Constant(4, depth, 0.25f), out(4, 3);
    a.row(1).setZero();
    a(2, depth - 1) = std::numeric_limits<float>::quiet_NaN();
    a(3, 0) = std::numeric_limits<float>::infinity();
    const std::vector<signed char> w(static_cast<size_t>(3 * depth), 2);
    const float ones[] = {1, 1, 1};
    Int8Weight weight(3, depth);
    writeInt8(weight, weight.in(), 0, 3, w.data(), ones);
    matmul(view(static_cast<const float*>(a.data()), 4, depth), weight, {}, view(out.data(), 4, 3), context);
    for (Index j = 0; j < 3; ++j) {
      EXPECT_NEAR(out(0, j), 0.5 * static_cast<double>(depth), 1e-5);
      EXPECT_EQ(out(1, j), 0.0f);
      EXPECT_TRUE(std::isnan(out(2, j)));
      EXPECT_TRUE(std::isnan(out(3, j)));
    }
  }
}

TEST(Int8Matmul, TakesFiniteRowsWhoseSumIsNot) {
  Context context;
  for (const Index depth : {5, 32, 37}) {
    RowMajorMatrix a = RowMajorMatrix::Constant(3, depth, 2e38f), out(3, 1);
    a(1, depth - 1) = 1.5e38f;
    a.row(2).setConstant(-3e38f);
    a(2, 1) = 3e38f;  // the row's range exceeds that of fp32, so no scale represents it
    std::vector<signed char> w(static_cast<size_t>(depth));
    w[0] = 1;
    w[static_cast<size_t>(depth) - 1] = -1;
    const float half = 0.5f;
    Int8Weight weight(1, depth);
    writeInt8(weight, weight.in(), 0, 1, w.data(), &half);
    matmul(view(static_cast<const float*>(a.data()), 3, depth), weight, {}, view(out.data(), 3, 1), context);
    EXPECT_EQ(out(0, 0), 0);
    EXPECT_NEAR(out(1, 0), 0.25e38f, 1e32f);
    EXPECT_TRUE(std::isnan(out(2, 0)));
  }
}

TEST(Matmul, TakesEmptyOperands) {
  Context context;
  for (const Precision precision : {Precision::kFloat32, Precision::kInt8}) {
    float bias[3] = {1, 2, 3}, out[6] = {};
    const auto no_depth = PackedWeight::create(3, 0, precision);
    matmul(view(static_cast<const float*>(out), 2, 0), *no_depth, {bias, Activation::kIdentity, nullptr, 0},
           view(out, 2, 3), context);
    if (precision == Precision::kFloat32) EXPECT_EQ(out[5], 3.0f);
    const auto weight = PackedWeight::create(3, 4, precision);
    matmul(view(static_cast<const float*>(out), 0, 4), *weight, {}, view(out, 0, 3), context);
  }
}

// More panels than one batch, some of them wide: each row must equal the row of a weight with this row only.
TEST(Int8Matmul, MultipliesWidePanelsAmongOthers) {
  constexpr Index kOut = 200, kDepth = 3072;
  const std::vector<float> bell = randomFloats(kOut * kDepth, 9), equal(static_cast<size_t>(kDepth), 0.5f);
  const auto row = [&](Index r) {
    return r == 0 || r == 30 || r == 39 || r == 90 || r == 199 ? equal.data() : bell.data() + r * kDepth;
  };
  Int8Weight all(kOut, kDepth);
  for (Index r = 0; r < kOut; ++r) all.write(r, 1, row(r));
  EXPECT_TRUE(all.isWide(3) && all.isWide(4) && !all.isWide(5));
  Context context;
  for (const Index rows : {1, 2, 6, 13}) {
    const std::vector<float> a = randomFloats(rows * kDepth, 10);
    RowMajorMatrix together(rows, kOut), alone(rows, 1);
    matmul(view(a.data(), rows, kDepth), all, {}, view(together.data(), rows, kOut), context);
    for (Index r = 0; r < kOut; ++r) {
      Int8Weight one(1, kDepth);
      one.write(0, 1, row(r));
      matmul(view(a.data(), rows, kDepth), one, {}, view(alone.data(), rows, 1), context);
      ASSERT_TRUE((together.col(r).array() == alone.col(0).array()).all()) << rows << " rows, output " << r;
    }
  }
}

}  // namespace
}  // namespace heed
