#include "kernels/matmul.h"

#include <algorithm>

#include "kernels/strips.h"
#include "ops/activation.h"

namespace heed {

namespace {

/// Rows that go through a whole weight together: as many as keep the left operand in the second-level cache and a
/// panel's sums in the first.
constexpr Index kBlockRows = 128;
/// Sums that wait for their epilogue, and bytes of the weights that they are made of, which each strip reads again.
constexpr Index kMostSums = 8 * 16 * kBlockRows;
constexpr Index kMostPanelBytes = 256 * 1024;
/// Panels between two epilogues: the more, the less often one loop runs dry before the next. A multiple of those of the
/// widest tile, and of the two that fill a cache line of C.
Index panelsAtOnce(Index rows, const PackedWeight& weight) {
  const Index bytes = std::max<Index>(weight.panelBytes(), 1);  // 0 where K is
  const Index most = std::min(kMostSums / (8 * rows), kMostPanelBytes / bytes);
  return std::max<Index>(most / 4, 2) * 4;
}

/// A block of the left operand, ready to be multiplied.
struct LeftBlock {
  Index first_row;
  Strips strips;
  const uint32_t* units;
  const RowQuantization* rows;  ///< int8 only
};

/// A strip of R rows times panels [p, p + count). Low strips take several panels at once: alone, their few sums would
/// leave the multipliers waiting for each other.
template <class Step, int R>
void multiplyStrip(const uint32_t* units, const PackedWeight& weight, Index p, Index count, float* sums, Index stride) {
  constexpr int kAtOnce = R == 1 ? 4 : R == 2 ? 2 : 1;
  Index i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce)
    tile<Step, R, kAtOnce>(units, weight.panel(p + i), weight.panelBytes(), weight.steps(), sums + i * stride, stride);
  for (; i < count; ++i) tile<Step, R, 1>(units, weight.panel(p + i), 0, weight.steps(), sums + i * stride, 0);
}

/// All strips times panels [p, p + count): sums (count, T, 8).
template <class Step>
void multiplyPanels(const LeftBlock& left, const PackedWeight& weight, Index p, Index count, float* sums) {
  constexpr decltype(&multiplyStrip<Step, 1>) kByHeight[] = {
      multiplyStrip<Step, 1>, multiplyStrip<Step, 2>, multiplyStrip<Step, 3>,
      multiplyStrip<Step, 4>, multiplyStrip<Step, 5>,
#if defined(HEED_RELAXED_SIMD)
      multiplyStrip<Step, 6>,
#endif
  };
  static_assert(std::size(kByHeight) == kStripRows);
  for (Index i = 0; i < left.strips.count; ++i) {
    const Index begin = left.strips.begin(i), height = left.strips.begin(i + 1) - begin;
    kByHeight[height - 1](left.units + begin * weight.steps(), weight, p, count, sums + 8 * begin,
                          8 * left.strips.rows);
  }
}

using MultiplyPanels = decltype(&multiplyPanels<FloatStep>);

/// The int8 kernels for panels that are wide and for those that are not.
struct Int8Kernels {
  MultiplyPanels wide, narrow;
};

/// Bytes above 127 are outside the relaxed dot's contract, and what it makes of them tells what it is made of: VNNI
/// takes them as they are, Arm for negative; x86 without VNNI adds pairs of products in saturating 16 bits. All agree
/// on what is inside the contract. (V8 11 does not, behind its flag and before it optimizes: it adds the sums twice.)
Int8Kernels fastestInt8() {
#if defined(__wasm_relaxed_simd__)
  const int32_t sum = wasm_i32x4_extract_lane(
      simd::dot4Add(simd::opaqueSplat(0x7f7f7f7f), simd::opaqueSplat(-1), wasm_i32x4_splat(0)), 0);
  if (sum == 4 * 127 * 255 || sum == -4 * 127) return {multiplyPanels<DotStep>, multiplyPanels<DotStep>};
#endif
#if defined(HEED_RELAXED_SIMD)
  return {multiplyPanels<SplitDotStep>, multiplyPanels<NarrowDotStep>};  // natively, too: those that could overflow
#else
  return {multiplyPanels<WideDotStep>, multiplyPanels<WideDotStep>};
#endif
}

/// The columns of P panels on their way from sums (P, T, 8) to C.
template <int P>
class PanelEpilogue {
 public:
  PanelEpilogue(const Product& product, Index panel)
      : product_(product),
        out_(product.out),
        column_(8 * panel),
        width_(std::min<Index>(8 * P, product.weight->out() - column_)) {
    float bias[8 * P] = {};
    if (product.epilogue.bias) std::copy_n(product.epilogue.bias + column_, width_, bias);
    const bool is_int8 = product.weight->precision() == Precision::kInt8;
    HEED_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      bias_[i] = simd::load(bias + 4 * i);
      if (!is_int8) continue;
      scales_[i] = simd::load(product.weight->scales() + column_ + 4 * i);
      sums_[i] = simd::load(product.weight->sums() + column_ + 4 * i);
    }
  }

  void run(const LeftBlock& left, float* sums) {
    const Index rows = left.strips.rows;
    const Activation activation = product_.epilogue.activation;
    const bool is_identity = activation == Activation::kIdentity;
    for (Index r = 0; r < rows; ++r) {
      v128_t values[kVectors];
      HEED_UNROLL
      for (int i = 0; i < kVectors; ++i) {
        float* from = place(sums, rows, r, i);
        const v128_t sum = simd::load(from);
        values[i] = wasm_f32x4_add(left.rows ? dequantize(sum, left.rows[r], i) : sum, bias_[i]);
        if (!is_identity) simd::store(from, values[i]);
      }
      if (is_identity) write(left.first_row + r, values);
    }
    if (is_identity) return;
    activate(sums, 8 * P * rows, activation);
    for (Index r = 0; r < rows; ++r) {
      v128_t values[kVectors];
      HEED_UNROLL
      for (int i = 0; i < kVectors; ++i) values[i] = simd::load(place(sums, rows, r, i));
      write(left.first_row + r, values);
    }
  }

 private:
  static constexpr int kVectors = 2 * P;
  static float* place(float* sums, Index rows, Index r, int i) { return sums + 8 * (i / 2 * rows + r) + 4 * (i % 2); }

  /// sum of (s q + o) (t w) = t (s sum of q w + o sum of w), unfused, so that both builds give the same.
  v128_t dequantize(v128_t sum, const RowQuantization& row, int i) const {
    const v128_t scaled = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum), simd::splat(row.scale));
    return wasm_f32x4_mul(wasm_f32x4_add(scaled, wasm_f32x4_mul(simd::splat(row.offset), sums_[i])), scales_[i]);
  }

  void write(Index row, const v128_t values[kVectors]) {
    float* to = out_.data() + row * out_.outerStride() + column_;
    const float* residual = product_.epilogue.residual;
    if (residual) residual += row * product_.epilogue.residual_stride + column_;
    if (width_ < 8 * P) {
      float floats[8 * P];
      HEED_UNROLL
      for (int i = 0; i < kVectors; ++i) simd::store(floats + 4 * i, values[i]);
      for (Index j = 0; j < width_; ++j) to[j] = residual ? residual[j] + floats[j] : floats[j];
      return;
    }
    HEED_UNROLL
    for (int i = 0; i < kVectors; ++i)
      simd::store(to + 4 * i, residual ? wasm_f32x4_add(simd::load(residual + 4 * i), values[i]) : values[i]);
  }

  const Product& product_;
  MatrixView out_;
  const Index column_, width_;
  v128_t bias_[kVectors], scales_[kVectors], sums_[kVectors];
};

void multiplyBlock(const LeftBlock& left, const Product& product, float* sums) {
  static const Int8Kernels int8 = fastestInt8();
  const PackedWeight& weight = *product.weight;
  const Index rows = left.strips.rows;
  for (Index p = 0, count; p < weight.panels(); p += count) {
    count = std::min(panelsAtOnce(rows, weight), weight.panels() - p);
    if (!left.rows) multiplyPanels<FloatStep>(left, weight, p, count, sums);
    // Wide panels take the slower kernel, and take no others with them.
    for (Index first = 0, run; left.rows && first < count; first += run) {
      const bool wide = weight.wide(p + first, 1);
      for (run = 1; first + run < count && weight.wide(p + first + run, 1) == wide;) ++run;
      (wide ? int8.wide : int8.narrow)(left, weight, p + first, run, sums + 8 * rows * first);
    }
    Index i = 0;
    for (; i + 2 <= count; i += 2) PanelEpilogue<2>(product, p + i).run(left, sums + 8 * rows * i);
    if (i < count) PanelEpilogue<1>(product, p + i).run(left, sums + 8 * rows * i);
  }
}

}  // namespace

void matmul(ConstMatrixView a, std::span<const Product> products, Arena& arena) {
  const Arena::Scope scope(arena);
  const Index depth = a.cols(), most_rows = std::min(a.rows(), kBlockRows),
              blocks = a.rows() / kBlockRows + (a.rows() % kBlockRows != 0);
  const auto any = [&](Precision precision) {
    return std::any_of(products.begin(), products.end(),
                       [&](const Product& product) { return product.weight->precision() == precision; });
  };
  const bool any_float = any(Precision::kFloat32), any_int8 = any(Precision::kInt8);
  const Index int8_steps = int8Steps(depth);
  uint32_t* units = any_float ? arena.take<uint32_t>(most_rows * depth) : nullptr;
  uint32_t* int8_units = any_int8 ? arena.take<uint32_t>(most_rows * int8_steps) : nullptr;
  RowQuantization* rows = any_int8 ? arena.take<RowQuantization>(most_rows) : nullptr;
  float* sums = arena.take(kMostSums);

  for (Index b = 0; b < blocks; ++b) {
    const Index first = evenPart(a.rows(), blocks, b), count = evenPart(a.rows(), blocks, b + 1) - first;
    const Strips strips(count);
    const ConstMatrixView block = view(a.data() + first * a.outerStride(), count, depth, a.outerStride());
    if (any_float) packStrips(block, strips, units);
    if (any_int8) quantizeStrips(block, strips, int8_units, rows);
    for (const Product& product : products) {
      const bool is_int8 = product.weight->precision() == Precision::kInt8;
      multiplyBlock({first, strips, is_int8 ? int8_units : units, is_int8 ? rows : nullptr}, product, sums);
    }
  }
}

}  // namespace heed
