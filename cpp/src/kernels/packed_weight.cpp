#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/matmul.h"
#include "kernels/strips.h"

namespace heed {
namespace {

/// x (count) onto -127..127; returns the scale.
float quantize(const float* x, Index count, signed char* to) {
  const Index whole = count / 4 * 4;
  v128_t largest_four = simd::splat(0);
  for (Index k = 0; k < whole; k += 4) largest_four = simd::maximum(largest_four, wasm_f32x4_abs(simd::load(x + k)));
  float largest = simd::horizontalMaximum(largest_four);
  for (Index k = whole; k < count; ++k) largest = std::max(largest, std::fabs(x[k]));
  const float scale = largest / 127, inverse = scale > 0 ? 1 / scale : 0;
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
  Index k = 0;
  for (; k + 16 <= count; k += 16) quantize16(x + k, to + k);
  float rest[16] = {};
  signed char quantized[16];
  std::copy_n(x + k, count - k, rest);
  quantize16(rest, quantized);
  std::copy_n(quantized, count - k, to + k);
  return scale;
}

float sum(std::span<const signed char> x) {
  v128_t sums = wasm_i32x4_splat(0);
  for (size_t k = 0; k < x.size(); k += 16) {
    sums = wasm_i32x4_add(sums, wasm_i32x4_extadd_pairwise_i16x8(wasm_i16x8_extadd_pairwise_i8x16(simd::load(&x[k]))));
  }
  return static_cast<float>(wasm_i32x4_extract_lane(sums, 0) + wasm_i32x4_extract_lane(sums, 1) +
                            wasm_i32x4_extract_lane(sums, 2) + wasm_i32x4_extract_lane(sums, 3));
}

}  // namespace

PackedWeight::PackedWeight(Index out, Index in, Precision precision) : out_(out), in_(in), precision_(precision) {
  const bool is_int8 = precision == Precision::kInt8;
  steps_ = is_int8 ? int8Steps(in) : in;
  step_bytes_ = 8 * (is_int8 ? kInt8Group : static_cast<Index>(sizeof(float)));
  // One line even for an empty weight, so that panel(0) is a place.
  storage_.resize(static_cast<size_t>(Shape{panels(), steps_, step_bytes_}.size()) / sizeof(CacheLine) + 1);
  if (!is_int8) return;
  scales_.resize(static_cast<size_t>(8 * panels()));
  sums_.resize(static_cast<size_t>(8 * panels()));
  if (kInt8Together != 2) return;
  const Index marks = steps_ / 2 + 1;
  wide_.resize(static_cast<size_t>(panels() * marks));
  for (Index p = 1; p <= panels(); ++p) wide_[static_cast<size_t>(p * marks - 1)] = 1;
}

std::byte* PackedWeight::row(Index row) {
  return storage_[0].bytes + row / 8 * panelBytes() + row % 8 * step_bytes_ / 8;
}

void PackedWeight::write(Index first, Index count, const float* rows) {
  if (precision_ == Precision::kFloat32) {
    for (Index next; count > 0; first += next, count -= next, rows += next * in_) {
      next = std::min<Index>(count, 8 - first % 8);
      interleaveRows(rows, in_, next, in_, 8, reinterpret_cast<uint32_t*>(row(first)));
    }
    return;
  }
  std::vector<signed char> quantized(static_cast<size_t>(in_));
  for (Index r = first; r < first + count; ++r, rows += in_) {
    const float scale = quantize(rows, in_, quantized.data());
    writeInt8(r, 1, quantized.data(), &scale);
  }
}

void PackedWeight::writeInt8(Index first, Index count, const signed char* rows, const float* scales) {
  if (precision_ == Precision::kFloat32) {
    std::vector<float> widened(static_cast<size_t>(in_));
    for (Index r = 0; r < count; ++r) {
      for (Index k = 0; k < in_; ++k)
        widened[static_cast<size_t>(k)] = scales[r] * static_cast<float>(rows[r * in_ + k]);
      write(first + r, 1, widened.data());
    }
    return;
  }
  std::vector<signed char> filled(static_cast<size_t>(steps_ * kInt8Group + 15) / 16 *
                                  16);  // with zeros to whole vectors
  for (Index r = first; r < first + count; ++r, rows += in_, ++scales) {
    std::copy_n(rows, in_, filled.begin());
    if constexpr (kInt8Group == 4) {
      interleave(filled.data(), steps_, 8, reinterpret_cast<uint32_t*>(row(r)));
      markWide(r, filled.data());
    } else {
      std::byte* to = row(r);
      for (Index s = 0; s < steps_; ++s, to += step_bytes_) std::memcpy(to, &filled[static_cast<size_t>(2 * s)], 2);
    }
    scales_[static_cast<size_t>(r)] = *scales;
    sums_[static_cast<size_t>(r)] = sum(filled);
  }
}

void PackedWeight::markWide(Index row, const signed char* weights) {
  const Index twos = steps_ / 2;
  uint8_t* marks = wide_.data() + row / 8 * (twos + 1);
  const auto bit = static_cast<uint8_t>(1 << row % 8);
  // Of each 8 weights, two steps, the sums of 4 that share a place in 16 bits: the positive ones' and the negative
  // ones'.
  const v128_t zero = wasm_i32x4_splat(0);
  const auto fours = [](v128_t positive) {
    const v128_t twos = wasm_u16x8_extadd_pairwise_u8x16(positive);
    return wasm_i16x8_add(twos, wasm_i32x4_shuffle(twos, twos, 1, 0, 3, 2));
  };
  const v128_t most = wasm_i16x8_splat(std::numeric_limits<int16_t>::max() / 127);
  for (Index t = 0; t < twos; t += 2) {
    const v128_t w = simd::load(weights + 8 * t);
    const v128_t larger =
        wasm_i16x8_max(fours(wasm_i8x16_max(w, zero)), fours(wasm_i8x16_neg(wasm_i8x16_min(w, zero))));
    const v128_t is_wide = wasm_i16x8_gt(larger, most);
    const int64_t halves[] = {wasm_i64x2_extract_lane(is_wide, 0), wasm_i64x2_extract_lane(is_wide, 1)};
    for (Index i = 0; i < 2 && t + i < twos; ++i)
      marks[t + i] = static_cast<uint8_t>(halves[i] ? marks[t + i] | bit : marks[t + i] & ~bit);
  }
}

void PackedWeight::read(Index first, Index count, float* rows) const {
  for (Index r = first; r < first + count; ++r) {
    const std::byte* from = row(r);
    if (precision_ == Precision::kFloat32) {
      for (Index k = 0; k < in_; ++k, from += step_bytes_) std::memcpy(rows++, from, sizeof(float));
      continue;
    }
    const float scale = scales_[static_cast<size_t>(r)];
    for (Index k = 0; k < in_; k += kInt8Group, from += step_bytes_) {
      for (Index i = 0; i < std::min(kInt8Group, in_ - k); ++i)
        *rows++ = scale * static_cast<float>(static_cast<signed char>(from[i]));
    }
  }
}

}  // namespace heed
