#include "kernels/attention.h"

#include <algorithm>

#include "kernels/strips.h"

namespace heed {
namespace {

/// What a panel's sums become on their way to memory.
struct Target {
  float* rows;
  Index stride;
  Index columns;
  const float* factors;  ///< one per row

  /// Eight sums of row r, for columns from `first` on.
  void write(Index r, Index first, v128_t low, v128_t high) const {
    float* to = rows + r * stride + first;
    low = wasm_f32x4_mul(low, simd::splat(factors[r]));
    high = wasm_f32x4_mul(high, simd::splat(factors[r]));
    if (first + 8 <= columns) {
      simd::store(to, low);
      simd::store(to + 4, high);
    } else {
      float sums[8];
      simd::store(sums, low);
      simd::store(sums + 4, high);
      std::copy_n(sums, columns - first, to);
    }
  }
};

/// R rows times `steps` rows of P panels that lie next to each other, on top of the sums `start` (R, 8P) where that is
/// not null, to columns of `target` from `first` on. tile() with its ends in registers: attention's sums are short, and
/// going through memory would cost a sixth of their time.
template <int R, int P>
void multiplyPanels(const uint32_t* units, const float* right, Index panel_floats, Index steps, const float* start,
                    Index first, const Target& target) {
  v128_t sum[R][2 * P];
  HEED_UNROLL
  for (int r = 0; r < R; ++r) {
    HEED_UNROLL
    for (int i = 0; i < 2 * P; ++i) sum[r][i] = start ? simd::load(start + 8 * P * r + 4 * i) : simd::splat(0);
  }
#pragma clang loop unroll(disable)
  for (Index s = 0; s < steps; ++s) {
    v128_t columns[2 * P];
    HEED_UNROLL
    for (int i = 0; i < 2 * P; ++i) columns[i] = simd::load(right + i / 2 * panel_floats + 4 * (i % 2));
    HEED_UNROLL
    for (int r = 0; r < R; ++r) {
      const v128_t unit = wasm_v128_load32_splat(units + r);
      HEED_UNROLL
      for (int i = 0; i < 2 * P; ++i) sum[r][i] = simd::multiplyAdd(unit, columns[i], sum[r][i]);
    }
    units += R;
    right += 8;
  }
  HEED_UNROLL
  for (int r = 0; r < R; ++r) {
    HEED_UNROLL
    for (int p = 0; p < P; ++p) target.write(r, first + 8 * p, sum[r][2 * p], sum[r][2 * p + 1]);
  }
}

/// The same for rows in several ranges; between them the sums wait in memory.
template <int R, int P>
void multiplyRanges(const uint32_t* units, const Panels& right, Index panel, std::span<const Range> rows, Index first,
                    const Target& target) {
  static constexpr float kOnes[] = {1, 1, 1, 1, 1, 1};
  static_assert(R <= std::size(kOnes));
  float sums[R * 8 * P];
  const float* start = nullptr;
  for (const Range& range : rows) {
    const bool last = &range == &rows.back();
    multiplyPanels<R, P>(units, right.panel(panel) + 8 * range.begin, 8 * right.depth, range.count(), start,
                         last ? first : 0, last ? target : Target{sums, 8 * P, 8 * P, kOnes});
    units += R * range.count();
    start = sums;
  }
}

/// Low strips take several panels at once: alone, their few sums would leave the multipliers waiting for each other.
template <int R>
void multiplyRows(const uint32_t* units, const Panels& right, std::span<const Range> rows,
                  std::span<const Range> columns, const Target& target) {
  constexpr int kTogether = R == 1 ? 4 : R == 2 ? 2 : 1;
  Index first = 0;
  for (const Range& range : columns) {
    Index p = range.begin / 8;
    const Index end = (range.end + 7) / 8;
    for (; p + kTogether <= end; p += kTogether, first += 8 * kTogether)
      multiplyRanges<R, kTogether>(units, right, p, rows, first, target);
    for (; p < end; ++p, first += 8) multiplyRanges<R, 1>(units, right, p, rows, first, target);
  }
}

}  // namespace

Index queryStrips(Index queries) { return Strips(queries).count; }

Panels packKeys(ConstMatrixView key, const RowList& chosen, Arena& arena) {
  const Index keys = chosen.count, width = key.cols(), stride = key.outerStride();
  float* to = arena.take(8 * width * ((keys + 7) / 8));
  const Panels panels{.data = to, .depth = width, .columns = keys, .finite = false};
  for (Index first = 0; first < keys; first += 8, to += 8 * width) {
    const Index count = std::min<Index>(8, keys - first);
    const float* rows[8];
    for (Index i = 0; i < count; ++i) rows[i] = key.data() + chosen[first + i] * stride;
    Index k = 0;
    for (; count == 8 && k + 4 <= width; k += 4) {
      HEED_UNROLL
      for (int half = 0; half < 2; ++half) {
        v128_t four[4];
        HEED_UNROLL
        for (int i = 0; i < 4; ++i) four[i] = simd::load(rows[4 * half + i] + k);
        simd::transpose4x4(four);
        HEED_UNROLL
        for (int i = 0; i < 4; ++i) simd::store(to + 8 * (k + i) + 4 * half, four[i]);
      }
    }
    for (; k < width; ++k) {
      for (Index i = 0; i < 8; ++i) to[8 * k + i] = i < count ? rows[i][k] : 0;
    }
  }
  return panels;
}

Panels packValues(ConstMatrixView value, const RowList& chosen, Arena& arena) {
  const Index keys = chosen.count, width = value.cols(), stride = value.outerStride();
  float* to = arena.take(8 * keys * ((width + 7) / 8));
  Panels panels{.data = to, .depth = keys, .columns = width, .finite = false};
  v128_t odd = simd::splat(0);  // x - x is 0, unless x is infinite or NaN
  float part[8] = {};           // the columns of the last panel, where they are fewer
  for (Index first = 0; first < width; first += 8) {
    for (Index j = 0; j < keys; ++j, to += 8) {
      const float* from = value.data() + chosen[j] * stride + first;
      if (first + 8 > width) {
        std::copy_n(from, width - first, part);
        from = part;
      }
      for (int i = 0; i < 8; i += 4) {
        const v128_t four = simd::load(from + i);
        simd::store(to + i, four);
        odd = wasm_v128_or(odd, wasm_f32x4_sub(four, four));
      }
    }
  }
  panels.finite = !wasm_v128_any_true(odd);
  return panels;
}

void multiplyStrip(ConstMatrixView a, const Panels& right, std::span<const Range> rows, std::span<const Range> columns,
                   const float* factors, MatrixView out, uint32_t* units) {
  constexpr decltype(&multiplyRows<1>) kByHeight[] = {
      multiplyRows<1>, multiplyRows<2>, multiplyRows<3>, multiplyRows<4>, multiplyRows<5>,
#if defined(HEED_RELAXED_SIMD)
      multiplyRows<6>,
#endif
  };
  static_assert(std::size(kByHeight) == kStripRows && kStripRows <= kMostStripQueries);
  if (a.rows() == 0) return;
  static constexpr Range kNone{0, 0};
  if (rows.empty()) rows = {&kNone, 1};
  packStrips(a, Strips(a.rows()), units);
  kByHeight[a.rows() - 1](units, right, rows, columns, {out.data(), out.outerStride(), out.cols(), factors});
}

}  // namespace heed
