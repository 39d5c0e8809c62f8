#include "kernels/matmul.h"

#include <algorithm>
#include <type_traits>

#include "kernels/activation.h"
#include "kernels/strips.h"

namespace heed {

namespace {

/// Rows that go through a whole weight together: as many as keep the left operand in the second-level cache and a
/// panel's sums in the first.
constexpr Index kBlockRows = 128;
/// Panels of the widest tile.
constexpr Index kMostPanels = 4;

/// A block of the left operand, ready to be multiplied.
struct LeftBlock {
  Index first_row;
  Strips strips;
  const uint32_t* units;
  const RowQuantization* rows;  ///< int8 only
};

/// A strip of R rows times one panel.
template <class Step, int R>
void multiplyStrip(const uint32_t* units, const PackedWeight& weight, Index p, float* sums) {
#if defined(HEED_RELAXED_SIMD)
  if constexpr (std::is_same_v<Step, SplitDotStep>)
    return pairedTile<R>(units, weight.panel(p), weight.wide(p), weight.steps(), sums);
#endif
  tile<Step, R, 1>(units, weight.panel(p), 0, weight.steps(), sums, 0);
}

/// All strips times panels [p, p + count); count > 1 only for a single low strip, which alone would leave the
/// multipliers waiting for each other.
template <class Step>
void multiplyPanels(const LeftBlock& left, const PackedWeight& weight, Index p, Index count, float* sums) {
  const Index stride = 8 * left.strips.rows, steps = weight.steps();
  for (Index i = 0; i < left.strips.count; ++i) {
    const Index begin = left.strips.begin(i);
    const uint32_t* units = left.units + begin * steps;
    float* to = sums + 8 * begin;
    switch (left.strips.begin(i + 1) - begin) {
      case 1:
        count == 4 ? tile<Step, 1, 4>(units, weight.panel(p), weight.panelBytes(), steps, to, stride)
                   : tile<Step, 1, 1>(units, weight.panel(p), 0, steps, to, 0);
        break;
      case 2:
        count == 2 ? tile<Step, 2, 2>(units, weight.panel(p), weight.panelBytes(), steps, to, stride)
                   : tile<Step, 2, 1>(units, weight.panel(p), 0, steps, to, 0);
        break;
      case 3:
        multiplyStrip<Step, 3>(units, weight, p, to);
        break;
      case 4:
        multiplyStrip<Step, 4>(units, weight, p, to);
        break;
      case 5:
        multiplyStrip<Step, 5>(units, weight, p, to);
        break;
#if defined(HEED_RELAXED_SIMD)
      case 6:
        multiplyStrip<Step, 6>(units, weight, p, to);
        break;
#endif
      default:  // strips have no other heights
        break;
    }
  }
}

using MultiplyPanels = decltype(&multiplyPanels<FloatStep>);

/// Bytes above 127 are outside the relaxed dot's contract, and what it makes of them tells what it is made of: x86
/// without VNNI adds pairs of products in saturating 16 bits (twice 32767), VNNI does not saturate, Arm takes the bytes
/// for negative. All agree on what is inside the contract.
MultiplyPanels fastestInt8() {
#if defined(__wasm_relaxed_simd__)
  static const bool is_split =
      wasm_i32x4_extract_lane(simd::dot4Add(simd::opaqueSplat(0x7f7f7f7f), simd::opaqueSplat(-1), wasm_i32x4_splat(0)),
                              0) == 2 * 32767;
  return is_split ? multiplyPanels<SplitDotStep> : multiplyPanels<DotStep>;
#elif defined(HEED_RELAXED_SIMD)
  return multiplyPanels<SplitDotStep>;  // natively, for the sanitizers: the one that could overflow
#else
  return multiplyPanels<WideDotStep>;
#endif
}

/// The columns of one panel on their way from sums to C.
class PanelEpilogue {
 public:
  PanelEpilogue(const Product& product, Index panel)
      : product_(product),
        out_(product.out),
        column_(8 * panel),
        width_(std::min<Index>(8, product.weight->out() - column_)) {
    float bias[8] = {};
    if (product.epilogue.bias) std::copy_n(product.epilogue.bias + column_, width_, bias);
    const bool is_int8 = product.weight->precision() == Precision::kInt8;
    HEED_UNROLL
    for (int i = 0; i < 2; ++i) {
      bias_[i] = simd::load(bias + 4 * i);
      if (!is_int8) continue;
      scales_[i] = simd::load(product.weight->scales() + column_ + 4 * i);
      sums_[i] = simd::load(product.weight->sums() + column_ + 4 * i);
    }
  }

  void run(const LeftBlock& left, float* sums) {
    const Activation activation = product_.epilogue.activation;
    const bool is_identity = activation == Activation::kIdentity;
    for (Index r = 0; r < left.strips.rows; ++r) {
      float* row = sums + 8 * r;
      v128_t halves[2];
      HEED_UNROLL
      for (int i = 0; i < 2; ++i) {
        const v128_t sum = simd::load(row + 4 * i);
        halves[i] = wasm_f32x4_add(left.rows ? dequantize(sum, left.rows[r], i) : sum, bias_[i]);
        if (!is_identity) simd::store(row + 4 * i, halves[i]);
      }
      if (is_identity) write(left.first_row + r, halves);
    }
    if (is_identity) return;
    activate(sums, 8 * left.strips.rows, activation);
    for (Index r = 0; r < left.strips.rows; ++r) {
      const v128_t halves[2] = {simd::load(sums + 8 * r), simd::load(sums + 8 * r + 4)};
      write(left.first_row + r, halves);
    }
  }

 private:
  /// sum of (s q + o) (t w) = t (s sum of q w + o sum of w), unfused, so that both builds give the same.
  v128_t dequantize(v128_t sum, const RowQuantization& row, int half) const {
    const v128_t scaled = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum), simd::splat(row.scale));
    return wasm_f32x4_mul(wasm_f32x4_add(scaled, wasm_f32x4_mul(simd::splat(row.offset), sums_[half])), scales_[half]);
  }

  void write(Index row, const v128_t halves[2]) {
    float* to = out_.data() + row * out_.outerStride() + column_;
    const float* residual = product_.epilogue.residual;
    if (residual) residual += row * product_.epilogue.residual_stride + column_;
    if (width_ < 8) {
      float values[8];
      HEED_UNROLL
      for (int i = 0; i < 2; ++i) simd::store(values + 4 * i, halves[i]);
      for (Index j = 0; j < width_; ++j) to[j] = residual ? residual[j] + values[j] : values[j];
      return;
    }
    HEED_UNROLL
    for (int i = 0; i < 2; ++i)
      simd::store(to + 4 * i, residual ? wasm_f32x4_add(simd::load(residual + 4 * i), halves[i]) : halves[i]);
  }

  const Product& product_;
  MatrixView out_;
  const Index column_, width_;
  v128_t bias_[2], scales_[2], sums_[2];
};

void multiplyBlock(const LeftBlock& left, const Product& product, float* sums) {
  const PackedWeight& weight = *product.weight;
  const MultiplyPanels multiply = left.rows ? fastestInt8() : multiplyPanels<FloatStep>;
  const Index together = left.strips.rows == 1 ? kMostPanels : left.strips.rows == 2 ? 2 : 1;
  for (Index p = 0; p < weight.panels();) {
    const Index panels = weight.panels() - p >= together ? together : 1;
    multiply(left, weight, p, panels, sums);
    for (Index i = 0; i < panels; ++i, ++p) PanelEpilogue(product, p).run(left, sums + i * 8 * left.strips.rows);
  }
}

}  // namespace

void matmul(ConstMatrixView a, std::span<const Product> products, Arena& arena) {
  const Arena::Scope scope(arena);
  const Index depth = a.cols(), most_rows = std::min(a.rows(), kBlockRows),
              blocks = (a.rows() + kBlockRows - 1) / kBlockRows;
  const auto any = [&](Precision precision) {
    return std::any_of(products.begin(), products.end(),
                       [&](const Product& product) { return product.weight->precision() == precision; });
  };
  const bool any_float = any(Precision::kFloat32), any_int8 = any(Precision::kInt8);
  const Index int8_steps = int8Steps(depth);
  uint32_t* units = any_float ? arena.take<uint32_t>(most_rows * depth) : nullptr;
  uint32_t* int8_units = any_int8 ? arena.take<uint32_t>(most_rows * int8_steps) : nullptr;
  RowQuantization* rows = any_int8 ? arena.take<RowQuantization>(most_rows) : nullptr;
  std::byte* scratch = any_int8 ? arena.take<std::byte>(4 * int8_steps + 64) : nullptr;
  float* sums = arena.take(8 * most_rows * (most_rows <= 2 ? kMostPanels : 1));

  for (Index b = 0; b < blocks; ++b) {
    const Index first = b * a.rows() / blocks, count = (b + 1) * a.rows() / blocks - first;
    const Strips strips(count);
    const ConstMatrixView block = view(a.data() + first * a.outerStride(), count, depth, a.outerStride());
    if (any_float) packStrips(block, strips, units);
    if (any_int8) quantizeStrips(block, strips, int8_units, rows, scratch);
    for (const Product& product : products) {
      const bool is_int8 = product.weight->precision() == Precision::kInt8;
      multiplyBlock({first, strips, is_int8 ? int8_units : units, is_int8 ? rows : nullptr}, product, sums);
    }
  }
}

}  // namespace heed
