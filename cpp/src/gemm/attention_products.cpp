#include "gemm/attention_products.h"

#include <algorithm>

#include "gemm/driver.h"

namespace heed {
namespace {

/// A sink that multiplies each row by its factor and writes it to the output.
struct ScaledRows {
  float* out;
  Index stride;
  Index columns;
  const float* factors;

  template <int R, int P>
  void write(Index panel, const v128_t (&sums)[R][2 * P]) const {
    storeTile<R, P>(out, stride, columns, panel, false, [&](int r, int i, float* four) {
      simd::store(four, wasm_f32x4_mul(sums[r][i], simd::splat(factors[r])));
    });
  }
};

/// Splits ascending ranges of k into chains: chain c holds the parts of the ranges in [c kSumBlock, (c + 1) kSumBlock).
class Chains {
 public:
  explicit Chains(std::span<const Range> ranges) : rest_(ranges), begin_(ranges.empty() ? 0 : ranges.front().begin) {}

  bool isEmpty() const { return rest_.empty(); }
  /// The parts of the next chain; valid until the next call.
  std::span<const Range> next() {
    const Index end = (begin_ / kSumBlock + 1) * kSumBlock;
    size_t count = 0;
    while (!rest_.empty() && begin_ < end) {
      const Index last = rest_.front().end;
      if (begin_ < last) parts_[count++] = {begin_, std::min(last, end)};
      if (last > end) {
        begin_ = end;
        break;
      }
      rest_ = rest_.subspan(1);
      if (!rest_.empty()) begin_ = rest_.front().begin;
    }
    return {parts_, count};
  }

 private:
  std::span<const Range> rest_;
  Index begin_;  // where the rest of the first range begins
  Range parts_[kSumBlock / 2 + 1];
};

/// The product over one chain. Not inlined, because it is called in several places.
[[gnu::noinline]] void multiplyChain(Index height, const uint32_t* words, const Panels& right, std::span<const Range> k,
                                     std::span<const Range> columns, const ScaledRows& out) {
  const PanelSpan panels{reinterpret_cast<const std::byte*>(right.data), right.depth * FloatStep::kBytes};
  multiplyRowBlock<FloatStep>(height, words, panels, k, columns, out);
}

}  // namespace

Index queryBlocks(Index queries) { return RowBlocks(queries).count; }

// packKeys() and packValues() are not inlined; attendBlock() in ops/attention.cpp says why.
[[gnu::noinline]] Panels packKeys(ConstMatrixView key, const RowList& keys, Arena& arena) {
  const Index num_keys = keys.count, width = key.cols(), stride = key.outerStride();
  float* to = arena.take(8 * width * ((num_keys + 7) / 8));
  const Panels panels{.data = to, .depth = width, .columns = num_keys, .finite = false};
  for (Index first = 0; first < num_keys; first += 8, to += 8 * width) {
    const Index count = std::min<Index>(8, num_keys - first);
    const float* rows[8];
    for (Index i = 0; i < count; ++i) rows[i] = key.data() + keys[first + i] * stride;
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

[[gnu::noinline]] Panels packValues(ConstMatrixView value, const RowList& keys, Arena& arena) {
  const Index num_keys = keys.count, width = value.cols(), stride = value.outerStride();
  float* to = arena.take(8 * num_keys * ((width + 7) / 8));
  Panels panels{.data = to, .depth = num_keys, .columns = width, .finite = false};
  v128_t not_finite = simd::splat(0);  // x - x is 0, unless x is infinite or NaN
  float part[8] = {};                  // the columns of the last panel, if they are fewer
  for (Index first = 0; first < width; first += 8) {
    for (Index j = 0; j < num_keys; ++j, to += 8) {
      const float* from = value.data() + keys[j] * stride + first;
      if (first + 8 > width) {
        std::copy_n(from, width - first, part);
        from = part;
      }
      for (int i = 0; i < 8; i += 4) {
        const v128_t four = simd::load(from + i);
        simd::store(to + i, four);
        not_finite = wasm_v128_or(not_finite, wasm_f32x4_sub(four, four));
      }
    }
  }
  panels.finite = !wasm_v128_any_true(not_finite);
  return panels;
}

void multiplySelected(ConstMatrixView a, const Panels& right, std::span<const Range> rows,
                      std::span<const Range> columns, const float* factors, MatrixView out, uint32_t* words) {
  static_assert(kBlockRows <= kMaxQueries);
  if (a.rows() == 0) return;
  packRows(a, RowBlocks(a.rows()), words);
  const Index height = a.rows();
  const ScaledRows whole{out.data(), out.outerStride(), out.cols(), factors};
  if (right.depth <= kSumBlock) return multiplyChain(height, words, right, rows, columns, whole);

  constexpr Index kPartColumns = 64;
  float part[kMaxQueries * kPartColumns];
  Chains chains(rows);
  for (bool is_first = true; is_first || !chains.isEmpty(); is_first = false) {
    const std::span<const Range> k = chains.next();
    if (is_first) {
      multiplyChain(height, words, right, k, columns, whole);
    } else {
      float* to = out.data();
      for (const Range& range : columns) {
        for (Index first = range.begin, count; first < range.end; first += count, to += count) {
          count = std::min(kPartColumns, range.end - first);
          const Range some{first, first + count};
          multiplyChain(height, words, right, k, {&some, 1}, ScaledRows{part, kPartColumns, count, factors});
          view(to, height, count, out.outerStride()) += view(part, height, count, kPartColumns);
        }
      }
    }
    for (const Range& range : k) words += height * range.count();
  }
}

}  // namespace heed
