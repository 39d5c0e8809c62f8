/// R[i, j] = (H[i, j] - sum_(k > j) R[i, k] R[j, k]) / R[j, j], and R[j, j] is the square root of the same for i = j.
#include "ops/triangular_factor.h"

#include <algorithm>
#include <cmath>

#include "gemm/simd.h"

namespace heed {
namespace {

/// Columns that are computed together: the products with the columns after them are computed first, in tiles.
constexpr Index kColumns = 32;

/// Subtracts from R x C elements of h, `stride` apart, the products of the rows of a and b over `count` values.
template <int R, int C>
void subtractProducts(const double* a, const double* b, Index stride, Index count, double* h) {
  v128_t sums[R][C] = {};
  Index k = 0;
  for (; k + 2 <= count; k += 2) {
    v128_t rows[R];
    HEED_UNROLL
    for (int r = 0; r < R; ++r) rows[r] = simd::load(a + r * stride + k);
    HEED_UNROLL
    for (int c = 0; c < C; ++c) {
      const v128_t row = simd::load(b + c * stride + k);
      HEED_UNROLL
      for (int r = 0; r < R; ++r) sums[r][c] = wasm_f64x2_add(sums[r][c], wasm_f64x2_mul(rows[r], row));
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) {
      double sum = wasm_f64x2_extract_lane(sums[r][c], 0) + wasm_f64x2_extract_lane(sums[r][c], 1);
      if (k < count) sum += a[r * stride + k] * b[c * stride + k];
      h[r * stride + c] -= sum;
    }
  }
}

/// H[i, j] -= sum_(k >= end) R[i, k] R[j, k] for rows i < end and columns j in [begin, end).
void subtractLater(double* h, Index width, Index begin, Index end) {
  const Index count = width - end;
  if (count == 0) return;
  const auto at = [&](Index i, Index j) { return h + i * width + j; };
  for (Index i = 0; i < end; i += 2) {
    const Index rows = std::min<Index>(2, end - i);
    for (Index j = begin; j < end; j += 2) {
      if (rows == 2 && j + 2 <= end) {
        subtractProducts<2, 2>(at(i, end), at(j, end), width, count, at(i, j));
        continue;
      }
      for (Index r = i; r < i + rows; ++r) {
        for (Index c = j; c < std::min(j + 2, end); ++c)
          subtractProducts<1, 1>(at(r, end), at(c, end), width, count, at(r, c));
      }
    }
  }
}

}  // namespace

bool triangularFactor(double* h, Index width) {
  for (Index end = width; end > 0;) {
    const Index begin = std::max<Index>(0, end - kColumns);
    subtractLater(h, width, begin, end);
    for (Index j = end; j-- > begin;) {
      double* own = h + j * width + j;
      subtractProducts<1, 1>(own + 1, own + 1, width, end - j - 1, own);
      if (!(*own > 0)) return false;
      *own = std::sqrt(*own);
      for (Index i = 0; i < j; ++i) {
        double* element = h + i * width + j;
        subtractProducts<1, 1>(element + 1, own + 1, width, end - j - 1, element);
        *element /= *own;
      }
    }
    end = begin;
  }
  return true;
}

}  // namespace heed
