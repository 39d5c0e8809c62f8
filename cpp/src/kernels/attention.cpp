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
  float factor;

  /// Eight sums of row r, for columns from 8 p on.
  void write(Index r, Index p, const float* sums) const {
    float* to = rows + r * stride + 8 * p;
    const Index width = std::min<Index>(8, columns - 8 * p);
    if (width == 8) {
      for (int i = 0; i < 8; i += 4) simd::store(to + i, wasm_f32x4_mul(simd::load(sums + i), simd::splat(factor)));
    } else {
      for (Index i = 0; i < width; ++i) to[i] = factor * sums[i];
    }
  }
};

/// R rows times panels [p, p + P).
template <int R, int P>
void multiplyPanels(const uint32_t* units, const float* panel, Index panel_floats, Index steps, Index p,
                    const Target& target) {
  float sums[P][R][8];
  tile<FloatStep, R, P>(units, reinterpret_cast<const std::byte*>(panel),
                        panel_floats * static_cast<Index>(sizeof(float)), steps, sums[0][0], 8 * R);
  for (int i = 0; i < P; ++i) {
    for (int r = 0; r < R; ++r) target.write(r, p + i, sums[i][r]);
  }
}

/// Low strips take several panels at once: alone, their few sums would leave the multipliers waiting for each other.
template <int R>
void multiplyRows(const uint32_t* units, const Panels& right, Index first_row, Index first_panel, Index steps,
                  const Target& target) {
  constexpr int kTogether = R == 1 ? 4 : R == 2 ? 2 : 1;
  const Index panels = (target.columns + 7) / 8;
  Index p = 0;
  for (; p + kTogether <= panels; p += kTogether) {
    multiplyPanels<R, kTogether>(units, right.panel(first_panel + p, first_row), 8 * right.depth, steps, p, target);
  }
  for (; p < panels; ++p)
    multiplyPanels<R, 1>(units, right.panel(first_panel + p, first_row), 8 * right.depth, steps, p, target);
}

}  // namespace

Index queryStrips(Index queries) { return Strips(queries).count; }

Panels packKeys(ConstMatrixView key, Arena& arena) {
  const Index keys = key.rows(), width = key.cols(), stride = key.outerStride();
  const Panels panels{arena.take(8 * width * ((keys + 7) / 8)), width, keys};
  float* to = const_cast<float*>(panels.data);
  for (Index first = 0; first < keys; first += 8, to += 8 * width) {
    const float* from = key.data() + first * stride;
    Index k = 0;
    for (; first + 8 <= keys && k + 4 <= width; k += 4) {
      for (int half = 0; half < 2; ++half) {
        v128_t four[4];
        for (int i = 0; i < 4; ++i) four[i] = simd::load(from + (4 * half + i) * stride + k);
        simd::transpose4x4(four);
        for (int i = 0; i < 4; ++i) simd::store(to + 8 * (k + i) + 4 * half, four[i]);
      }
    }
    for (; k < width; ++k) {
      for (Index i = 0; i < 8; ++i) to[8 * k + i] = first + i < keys ? from[i * stride + k] : 0;
    }
  }
  return panels;
}

Panels packValues(ConstMatrixView value, Arena& arena) {
  const Index keys = value.rows(), width = value.cols();
  const Panels panels{arena.take(8 * keys * ((width + 7) / 8)), keys, width};
  float* to = const_cast<float*>(panels.data);
  for (Index first = 0; first < width; first += 8) {
    for (Index j = 0; j < keys; ++j, to += 8) {
      const float* from = value.data() + j * value.outerStride() + first;
      if (first + 8 <= width) {
        simd::store(to, simd::load(from));
        simd::store(to + 4, simd::load(from + 4));
      } else {
        for (Index i = 0; i < 8; ++i) to[i] = first + i < width ? from[i] : 0;
      }
    }
  }
  return panels;
}

void multiplyStrip(ConstMatrixView a, const Panels& right, Index first_row, Index first_column, float factor,
                   MatrixView out, uint32_t* units) {
  constexpr decltype(&multiplyRows<1>) kByHeight[] = {
      multiplyRows<1>, multiplyRows<2>, multiplyRows<3>, multiplyRows<4>, multiplyRows<5>,
#if defined(HEED_RELAXED_SIMD)
      multiplyRows<6>,
#endif
  };
  static_assert(std::size(kByHeight) == kStripRows && kStripRows <= kMostStripQueries);
  if (a.rows() == 0) return;
  packStrips(a, Strips(a.rows()), units);
  kByHeight[a.rows() - 1](units, right, first_row, first_column / 8, a.cols(),
                          {out.data(), out.outerStride(), out.cols(), factor});
}

}  // namespace heed
