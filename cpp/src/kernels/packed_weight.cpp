#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/check.h"
#include "kernels/matmul.h"
#include "kernels/strips.h"

namespace heed {
namespace {

/// The greatest sum of 8 weights of one sign whose products NarrowDotStep adds up in 16 bits.
constexpr int kMostNarrow = std::numeric_limits<int16_t>::max() / 127;

/// Of each 16 values x, the sums of the 8 that share a place in NarrowDotStep (pairs of every fourth), in each lane.
template <class Load>
v128_t sumEights(const Load& load) {
  v128_t sums = load(0);
  HEED_UNROLL
  for (int i = 1; i < 4; ++i) sums = wasm_f32x4_add(sums, load(i));
  return wasm_f32x4_add(sums, wasm_i32x4_shuffle(sums, sums, 1, 0, 3, 2));
}

/// x (count) onto -127..127, or onto fewer if they then are not wide and `full_range` is not asked for; returns the
/// scale.
float quantize(const float* x, Index count, bool full_range, signed char* to) {
  v128_t largest = simd::splat(0), largest_eight = simd::splat(0);
  v128_t odd = simd::splat(0);  // x - x is 0, unless x is infinite or NaN
  const auto see16 = [&](const float* from) {
    const v128_t zero = simd::splat(0);
    const v128_t above = sumEights([&](int i) { return simd::maximum(simd::load(from + 4 * i), zero); });
    const v128_t below = sumEights([&](int i) { return simd::minimum(simd::load(from + 4 * i), zero); });
    largest_eight = simd::maximum(largest_eight, simd::maximum(above, wasm_f32x4_neg(below)));
    HEED_UNROLL
    for (int i = 0; i < 4; ++i) {
      const v128_t four = simd::load(from + 4 * i);
      largest = simd::maximum(largest, wasm_f32x4_abs(four));
      odd = wasm_v128_or(odd, wasm_f32x4_sub(four, four));
    }
  };
  Index k = 0;
  for (; k + 16 <= count; k += 16) see16(x + k);
  float rest[16] = {};
  std::copy_n(x + k, count - k, rest);
  see16(rest);
  if (wasm_v128_any_true(odd)) {
    std::fill_n(to, count, static_cast<signed char>(0));
    return std::numeric_limits<float>::quiet_NaN();
  }
  // Rounding may make eight weights 4 greater. Where the sum would cost more than a bit or so, as among weights that
  // are all alike, the row is better wide.
  const float full = simd::horizontalMaximum(largest) / 127,
              narrow = simd::horizontalMaximum(largest_eight) / (kMostNarrow - 4),
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

/// Whether 8 weights of one sign that share a place in NarrowDotStep exceed kMostNarrow; x in whole vectors.
bool isWide(std::span<const signed char> x) {
  const v128_t zero = wasm_i32x4_splat(0);
  const auto eights = [](v128_t positive) {
    const v128_t pairs = wasm_u16x8_extadd_pairwise_u8x16(positive);
    const v128_t fours = wasm_i16x8_add(pairs, wasm_i32x4_shuffle(pairs, pairs, 2, 3, 0, 1));
    return wasm_i16x8_add(fours, wasm_i32x4_shuffle(fours, fours, 1, 0, 3, 2));
  };
  v128_t largest = zero;
  for (size_t k = 0; k < x.size(); k += 16) {
    const v128_t w = simd::load(&x[k]);
    largest = wasm_i16x8_max(largest, eights(wasm_i8x16_max(w, zero)));
    largest = wasm_i16x8_max(largest, eights(wasm_i8x16_neg(wasm_i8x16_min(w, zero))));
  }
  return wasm_v128_any_true(wasm_i16x8_gt(largest, wasm_i16x8_splat(kMostNarrow)));
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

PackedWeight::PackedWeight(Index out, Index in, Precision precision, bool full_range)
    : out_(out), in_(in), precision_(precision), full_range_(full_range) {
  const bool is_int8 = precision == Precision::kInt8;
  steps_ = is_int8 ? int8Steps(in) : in;
  step_bytes_ = 8 * (is_int8 ? kInt8Group : static_cast<Index>(sizeof(float)));
  const Shape shape{out, in};
  const double bytes = static_cast<double>(panels()) * static_cast<double>(steps_) * static_cast<double>(step_bytes_);
  if (bytes > static_cast<double>(std::numeric_limits<Index>::max())) refuseMemory("weight", shape, bytes);
  // One line even for an empty weight, so that panel(0) is a place.
  allocating("weight", shape, bytes, [&] { storage_.resize(static_cast<size_t>(bytes) / sizeof(CacheLine) + 1); });
  if (!is_int8) return;
  scales_.resize(static_cast<size_t>(8 * panels()));
  sums_.resize(static_cast<size_t>(8 * panels()));
  wide_.resize(static_cast<size_t>(panels()));
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
    const float scale = quantize(rows, in_, full_range_, quantized.data());
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
  std::vector<signed char> filled(static_cast<size_t>(steps_ * kInt8Group));  // with zeros
  for (Index r = first; r < first + count; ++r, rows += in_, ++scales) {
    std::copy_n(rows, in_, filled.begin());
    if constexpr (kInt8Group == 4) {
      interleave(filled.data(), steps_, 8, reinterpret_cast<uint32_t*>(row(r)));
    } else {
      std::byte* to = row(r);
      for (Index s = 0; s < steps_; ++s, to += step_bytes_) std::memcpy(to, &filled[static_cast<size_t>(2 * s)], 2);
    }
    scales_[static_cast<size_t>(r)] = *scales;
    sums_[static_cast<size_t>(r)] = sum(filled);
    uint8_t& wide_rows = wide_[static_cast<size_t>(r / 8)];
    const auto bit = static_cast<uint8_t>(1 << r % 8);
    wide_rows = static_cast<uint8_t>(isWide(filled) ? wide_rows | bit : wide_rows & ~bit);
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
