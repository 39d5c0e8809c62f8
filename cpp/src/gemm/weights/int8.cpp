#include "gemm/weights/int8.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "core/coded_rows.h"
#include "gemm/chunk.h"
#include "gemm/rotation.h"
#include "gemm/weights/int8_steps.h"
#include "ops/elementwise.h"

namespace heed {
namespace {

// The left operand: activations.

/// How a row was quantized: x = scale q + offset, q in 0..127.
struct RowQuantization {
  float scale;
  float offset;
};

/// Maps the minimum of a row to 0 and the maximum to 127. The scale is NaN if the row contains an infinity or a NaN, or
/// if its range exceeds that of fp32.
RowQuantization quantizationOf(float low, float high, bool finite) {
  const float range = high - low;
  return {finite && std::isfinite(range) ? range / 127 : std::numeric_limits<float>::quiet_NaN(), low};
}

RowQuantization activationRange(const float* x, Index count) {
  if (count == 0) return {0, 0};
  constexpr int kChains = 4;
  // x - x is 0, unless x is infinite or NaN.
  v128_t least[kChains], greatest[kChains], not_finite[kChains];
  for (int i = 0; i < kChains; ++i) {
    least[i] = greatest[i] = simd::splat(x[0]);
    not_finite[i] = simd::splat(0);
  }
  Index k = 0;
  for (; k + 4 * kChains <= count; k += 4 * kChains) {
    HEED_UNROLL
    for (int i = 0; i < kChains; ++i) {
      const v128_t four = simd::load(x + k + 4 * i);
      least[i] = simd::minimum(least[i], four);
      greatest[i] = simd::maximum(greatest[i], four);
      not_finite[i] = wasm_v128_or(not_finite[i], wasm_f32x4_sub(four, four));
    }
  }
  for (int i = 1; i < kChains; ++i) {
    least[0] = simd::minimum(least[0], least[i]);
    greatest[0] = simd::maximum(greatest[0], greatest[i]);
    not_finite[0] = wasm_v128_or(not_finite[0], not_finite[i]);
  }
  float low = simd::horizontalMinimum(least[0]), high = simd::horizontalMaximum(greatest[0]);
  bool finite = !wasm_v128_any_true(not_finite[0]);
  for (; k < count; ++k) {
    low = std::min(low, x[k]);
    high = std::max(high, x[k]);
    finite = finite && std::isfinite(x[k]);
  }
  return quantizationOf(low, high, finite);
}

/// Quantizes 16 floats to 0..127 and writes them as one vector of 8-bit integers or two of 16-bit integers. Vectors are
/// `stride` words apart; returns the address of the next one. Adding 1.5 2^23 rounds. Nothing is fused, so that both
/// builds give the same result.
uint32_t* quantizeActivations16(const float* x, v128_t offset, v128_t inverse, Index stride, uint32_t* to) {
  const v128_t rounder = simd::constant<12582912.0f>();
  v128_t q[4];
  HEED_UNROLL
  for (int i = 0; i < 4; ++i) {
    const v128_t scaled = wasm_f32x4_mul(wasm_f32x4_sub(simd::load(x + 4 * i), offset), inverse);
    q[i] = wasm_i32x4_sub(wasm_f32x4_add(scaled, rounder), rounder);
  }
  const v128_t low = wasm_i16x8_narrow_i32x4(q[0], q[1]), high = wasm_i16x8_narrow_i32x4(q[2], q[3]);
  if constexpr (kInt8StepValues == 4) {
    simd::store(to, wasm_u8x16_narrow_i16x8(low, high));
    return to + stride;
  } else {
    simd::store(to, low);
    simd::store(to + stride, high);
    return to + 2 * stride;
  }
}

/// Quantizes a row of activations. Vectors of words are written `stride` words apart.
void quantizeActivations(const float* x, Index count, const RowQuantization& row, Index stride, uint32_t* to) {
  const v128_t offset = simd::splat(row.offset), inverse = simd::splat(row.scale > 0 ? 1 / row.scale : 0);
  Index k = 0;
  for (; k + kInt8Values <= count; k += kInt8Values) to = quantizeActivations16(x + k, offset, inverse, stride, to);
  if (k == count) return;
  float tail[kInt8Values];
  std::fill_n(tail, kInt8Values, row.offset);
  std::copy_n(x + k, count - k, tail);
  quantizeActivations16(tail, offset, inverse, stride, to);
}

/// A packed chunk of T rows: the RowQuantization of each, then the words (T, int8Words(K)) in row blocks. If rows are
/// rotated, K more words hold one of them before it is quantized.
constexpr Index kRowWords = sizeof(RowQuantization) / sizeof(uint32_t);
constexpr Index int8Words(Index depth) { return int8Steps(depth) * kInt8StepWords; }

template <Rotation kRotation>
Index quantizedWords(Index rows, Index depth) {
  return rows * (kRowWords + int8Words(depth)) + (kRotation == Rotation::kNone ? 0 : depth);
}

template <Rotation kRotation>
void packQuantizedRows(ConstMatrixView a, const RowBlocks& blocks, uint32_t* to) {
  constexpr Index kVectorWords = 4;
  auto* rows = reinterpret_cast<RowQuantization*>(to);
  auto* rotated = reinterpret_cast<float*>(to + quantizedWords<Rotation::kNone>(blocks.rows, a.cols()));
  to += kRowWords * blocks.rows;
  for (Index i = 0; i < blocks.count; ++i) {
    const Index begin = blocks.begin(i), height = blocks.height(i);
    for (Index r = 0; r < height; ++r) {
      const float* row = a.data() + (begin + r) * a.outerStride();
      if constexpr (kRotation == Rotation::kWithSigns) {
        const auto [low, high, finite] = rotateWithRange(row, a.cols(), rotated);
        rows[begin + r] = quantizationOf(low, high, finite);
        row = rotated;
      } else {
        if constexpr (kRotation == Rotation::kWithoutSigns) {
          rotate(row, a.cols(), kRotation, rotated);
          row = rotated;
        }
        rows[begin + r] = activationRange(row, a.cols());
      }
      quantizeActivations(row, a.cols(), rows[begin + r], kVectorWords * height,
                          to + begin * int8Words(a.cols()) + kVectorWords * r);
    }
  }
}

// The weights.

/// The maximum sum of 8 weights of one sign whose products with 127 fit into 16 bits.
constexpr int kMaxNarrow = std::numeric_limits<int16_t>::max() / 127;

/// Sums of those 8 of 16 values whose products NarrowDotStep adds in one 16-bit lane: the values at k = 0 or 1 modulo
/// 4, and those at k = 2 or 3. Each of the two sums is in two lanes of the result.
template <class Load>
v128_t sumEights(const Load& load) {
  v128_t sums = load(0);
  HEED_UNROLL
  for (int i = 1; i < 4; ++i) sums = wasm_f32x4_add(sums, load(i));
  return wasm_f32x4_add(sums, wasm_i32x4_shuffle(sums, sums, 1, 0, 3, 2));
}

/// Quantizes the weights x (count) of one row, see Int8Weight. Returns the scale.
float quantizeWeightRow(const float* x, Index count, bool full_range, signed char* to) {
  v128_t largest = simd::splat(0), largest_eight = simd::splat(0);
  v128_t not_finite = simd::splat(0);  // x - x is 0, unless x is infinite or NaN
  const auto examine16 = [&](const float* from) {
    const v128_t zero = simd::splat(0);
    const v128_t above = sumEights([&](int i) { return simd::maximum(simd::load(from + 4 * i), zero); });
    const v128_t below = sumEights([&](int i) { return simd::minimum(simd::load(from + 4 * i), zero); });
    largest_eight = simd::maximum(largest_eight, simd::maximum(above, wasm_f32x4_neg(below)));
    HEED_UNROLL
    for (int i = 0; i < 4; ++i) {
      const v128_t four = simd::load(from + 4 * i);
      largest = simd::maximum(largest, wasm_f32x4_abs(four));
      not_finite = wasm_v128_or(not_finite, wasm_f32x4_sub(four, four));
    }
  };
  Index k = 0;
  for (; k + 16 <= count; k += 16) examine16(x + k);
  float rest[16] = {};
  std::copy_n(x + k, count - k, rest);
  examine16(rest);
  if (wasm_v128_any_true(not_finite)) {
    std::fill_n(to, count, static_cast<signed char>(0));
    return std::numeric_limits<float>::quiet_NaN();
  }
  // Rounding may add 4 to the sum of eight weights. If the narrow range would cost more than about one bit, as with
  // nearly equal weights, keep the row wide.
  const float full = simd::horizontalMaximum(largest) / 127,
              narrow = simd::horizontalMaximum(largest_eight) / (kMaxNarrow - 4),
              scale = full_range || narrow > 2.5f * full ? full : std::max(full, narrow),
              inverse = scale > 0 ? 1 / scale : 0;
  const auto quantize16 = [inverse = simd::splat(inverse)](const float* from, signed char* to) {
    v128_t four[4];
    HEED_UNROLL
    for (int i = 0; i < 4; ++i) {
      const v128_t scaled = wasm_f32x4_mul(simd::load(from + 4 * i), inverse);
      four[i] = wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(scaled));
    }
    const v128_t low = wasm_i16x8_narrow_i32x4(four[0], four[1]), high = wasm_i16x8_narrow_i32x4(four[2], four[3]);
    simd::store(to, wasm_i8x16_narrow_i16x8(low, high));
  };
  for (k = 0; k + 16 <= count; k += 16) quantize16(x + k, to + k);
  signed char quantized[16];
  quantize16(rest, quantized);
  std::copy_n(quantized, count - k, to + k);
  return scale;
}

/// The sum of a row of integers, and whether the row is wide (see Int8Weight).
struct RowTraits {
  int32_t sum;
  bool wide;
};

/// `x` is padded to whole vectors.
RowTraits traitsOf(const signed char* x, Index count) {
  const v128_t zero = wasm_i32x4_splat(0), signs = wasm_i16x8_make(1, 1, 1, 1, -1, -1, -1, -1);
  v128_t largest = zero, sums = zero;
  for (Index k = 0; k < count; k += kInt8Values) {
    const v128_t w = simd::load(x + k), positive = wasm_i8x16_max(w, zero);
    const v128_t above = wasm_u16x8_extadd_pairwise_u8x16(positive),
                 below = wasm_u16x8_extadd_pairwise_u8x16(wasm_i8x16_sub(positive, w));
    // Sums of four: of positive weights in the lower half, of negated negative weights in the upper half.
    const v128_t fours =
        wasm_i16x8_add(wasm_i32x4_shuffle(above, below, 0, 1, 4, 5), wasm_i32x4_shuffle(above, below, 2, 3, 6, 7));
    largest = wasm_i16x8_max(largest, wasm_i16x8_add(fours, wasm_i32x4_shuffle(fours, fours, 1, 0, 3, 2)));
    sums = wasm_i32x4_add(sums, wasm_i32x4_dot_i16x8(fours, signs));
  }
  alignas(16) int32_t parts[4];
  simd::store(parts, sums);
  return {.sum = parts[0] + parts[1] + parts[2] + parts[3],
          .wide = wasm_v128_any_true(wasm_i16x8_gt(largest, wasm_i16x8_splat(kMaxNarrow)))};
}

/// Writes up to 8 rows of `depth` integers to a panel. `depth` is a multiple of kInt8Values.
void interleaveIntegers(const signed char* rows, Index count, Index depth, std::byte* to) {
  if constexpr (kInt8StepValues == 4) {
    const Index words = depth / 4;
    interleaveRows(reinterpret_cast<const float*>(rows), words, count, words, 8, reinterpret_cast<uint32_t*>(to));
  } else {
    for (Index r = 0; r < count; ++r, to += 8) {
      std::byte* step = to;
      for (const signed char* end = rows + depth; rows < end; rows += kInt8Values, step += 128) {
        const v128_t two = simd::load(rows);
        wasm_v128_store64_lane(step, two, 0);
        wasm_v128_store64_lane(step + 64, two, 1);
      }
    }
  }
}

// The product.

/// The kernels for wide panels and for all others.
struct Int8Kernels {
  decltype(&multiplyRowBlocks<FloatStep>) wide, narrow;
};

Int8Kernels fastestInt8() {
#if defined(HEED_RELAXED_SIMD)
  if (simd::hasDot()) return {multiplyRowBlocks<DotStep>, multiplyRowBlocks<DotStep>};
  return {multiplyRowBlocks<SplitDotStep>, multiplyRowBlocks<NarrowDotStep>};  // natively too: these could overflow
#else
  return {multiplyRowBlocks<WideDotStep>, multiplyRowBlocks<WideDotStep>};
#endif
}

/// Initialized when the first weight is constructed, before threads multiply.
const Int8Kernels& int8Kernels() {
  static const Int8Kernels kernels = fastestInt8();
  return kernels;
}

/// The int8 Format of chunk.h: 32-bit integer sums, which the epilogue dequantizes.
struct Int8Format {
  const Int8Weight& weight;

  /// Uses the slower kernel only for runs of wide panels.
  void multiplyPanels(const LeftChunk& left, Range panels, float* sums) const {
    const Int8Kernels& kernels = int8Kernels();
    const uint32_t* words = left.packed + kRowWords * left.blocks.rows;
    for (Index p = panels.begin, end; p < panels.end; p = end) {
      const bool wide = weight.isWide(p);
      for (end = p + 1; end < panels.end && weight.isWide(end) == wide;) ++end;
      (wide ? kernels.wide : kernels.narrow)(left, words, weight, {p, end}, sums);
      sums += 8 * left.blocks.rows * (end - p);
    }
  }

  template <int P>
  struct Columns {
    v128_t scales[2 * P], sums[2 * P];

    Columns(const Int8Format& format, Index panel) {
      HEED_UNROLL
      for (int i = 0; i < 2 * P; ++i) {
        scales[i] = simd::load(format.weight.scales() + 8 * panel + 4 * i);
        sums[i] = simd::load(format.weight.sums() + 8 * panel + 4 * i);
      }
    }
    /// The sum of (s q + o) (t w) is t (s sum(q w) + o sum(w)). Nothing is fused, so that both builds agree.
    v128_t value(v128_t sum, const LeftChunk& left, Index row, int i) const {
      const RowQuantization& quantized = reinterpret_cast<const RowQuantization*>(left.packed)[row];
      const v128_t scaled = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum), simd::splat(quantized.scale));
      return wasm_f32x4_mul(wasm_f32x4_add(scaled, wasm_f32x4_mul(simd::splat(quantized.offset), sums[i])), scales[i]);
    }
  };
};

}  // namespace

Int8Weight::Int8Weight(Index out, Index in, bool full_range)
    : PackedWeight(out, in, int8Steps(in), 8 * kInt8StepValues),
      full_range_(full_range),
      rotation_(!full_range && rotationBlock(in) > 1 ? Rotation::kWithSigns : Rotation::kNone),
      scales_(static_cast<size_t>(8 * panels())),
      sums_(scales_.size()),
      wide_(static_cast<size_t>(panels())),
      padded_(static_cast<size_t>(depth())),
      rotated_row_(rotation_ == Rotation::kNone ? 0 : static_cast<size_t>(in)) {
  int8Kernels();
}

void Int8Weight::write(Index first, Index count, const float* rows) {
  for (Index r = first; r < first + count; ++r, rows += in()) {
    const bool is_rotated = rotation_ != Rotation::kNone;
    if (is_rotated) rotateWeights(rows, in(), rotation_, rotated_row_.data());
    const float scale = quantizeWeightRow(is_rotated ? rotated_row_.data() : rows, in(), full_range_, padded_.data());
    store(r, 1, padded_.data(), &scale);
  }
}

void Int8Weight::writeCoded(Index first, Index count, const CodedRows& rows, float* row) {
  const std::optional<Rotation> rotation = rotationOf(rows.code);
  // A depth without a rotation, an embedding table, or a weight with rows of a code that comes later.
  if (!rotation || *rotation > rotation_) return RowStorage::writeCoded(first, count, rows, row);
  if (*rotation < rotation_) changeRotation(*rotation);
  const auto* integers = reinterpret_cast<const signed char*>(rows.bytes);
  if (in() == depth()) return store(first, count, integers, rows.scales);
  for (Index r = 0; r < count; ++r) {
    std::copy_n(integers + r * in(), in(), padded_.begin());
    store(first + r, 1, padded_.data(), rows.scales + r);
  }
}

void Int8Weight::changeRotation(Rotation rotation) {
  for (Index r = 0; r < out(); ++r) {
    if (scales_[static_cast<size_t>(r)] == 0) continue;  // zeros, such as rows that are not yet written
    read(r, 1, rotated_row_.data());
    rotateWeights(rotated_row_.data(), in(), rotation, rotated_row_.data());
    const float scale = quantizeWeightRow(rotated_row_.data(), in(), full_range_, padded_.data());
    store(r, 1, padded_.data(), &scale);
  }
  rotation_ = rotation;
}

void Int8Weight::store(Index first, Index count, const signed char* rows, const float* scales) {
  for (Index next, r = first, end = first + count; r < end; r += next, rows += next * depth()) {
    next = std::min<Index>(end - r, 8 - r % 8);
    interleaveIntegers(rows, next, depth(), row(r));
    for (Index i = 0; i < next; ++i) {
      const auto [sum, wide] = traitsOf(rows + i * depth(), depth());
      const auto at = static_cast<size_t>(r + i);
      scales_[at] = *scales++;
      sums_[at] = static_cast<float>(sum);
      uint8_t& wide_rows = wide_[at / 8];
      const auto bit = static_cast<uint8_t>(1 << at % 8);
      wide_rows = static_cast<uint8_t>(wide ? wide_rows | bit : wide_rows & ~bit);
    }
  }
}

void Int8Weight::read(Index first, Index count, float* rows) const {
  for (Index r = first; r < first + count; ++r) {
    const std::byte* from = row(r);
    const float scale = scales_[static_cast<size_t>(r)];
    for (Index k = 0; k < in(); k += kInt8StepValues, from += stepBytes()) {
      for (Index i = 0; i < std::min(kInt8StepValues, in() - k); ++i)
        *rows++ = scale * static_cast<float>(static_cast<signed char>(from[i]));
    }
    if (rotation_ != Rotation::kNone) rotateBack(rows - in(), in(), rotation_, rows - in());
  }
}

const LeftForm& Int8Weight::leftForm() const {
  using enum Rotation;
  static constexpr LeftForm kForms[] = {
      {quantizedWords<kNone>, packQuantizedRows<kNone>},
      {quantizedWords<kWithoutSigns>, packQuantizedRows<kWithoutSigns>},
      {quantizedWords<kWithSigns>, packQuantizedRows<kWithSigns>},
  };
  return kForms[static_cast<size_t>(rotation_)];
}

void Int8Weight::multiply(const LeftChunk& left, const Product& product, Range panels, float* sums) const {
  multiplyChunk(Int8Format{*this}, left, product, panels, sums);
}

}  // namespace heed
