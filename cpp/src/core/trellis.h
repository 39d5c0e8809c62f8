#pragma once

#include <cstdint>

#include "heed/tensor.h"

/// Weights of 2, 3 or 4 bits by trellis-coded quantization (Marcellin, Fischer 1990, doi:10.1109/26.46532) with a
/// bit-shift trellis, whose levels are computed (Tseng et al. 2024, "QTIP", arXiv:2406.11235, sections 3.1 and 3.1.1).
///
/// The weights of a row or of a column form one sequence. Each of them has a number q of `bits` bits:
///
///   state = (state << bits | q) mod 2^13, initially 0
///   value = (row_scale * column_scale) * level(state)
///
/// A weight therefore depends on the previous numbers, too, and level() has 8192 values although q has only 4, 8 or 16.
/// A row of `width` weights has `bits` planes of (width + 7) / 8 bytes. Bit k mod 8 of byte k / 8 of plane b is bit b
/// of the number of column k.
namespace heed {

inline constexpr int kTrellisBits = 13;
inline constexpr Index kTrellisStates = 1 << kTrellisBits;

inline Index trellisPlaneBytes(Index width) { return (width + 7) / 8; }
inline Index trellisRowBytes(int bits, Index width) { return bits * trellisPlaneBytes(width); }

inline constexpr uint32_t kTrellisFactor = 2853375093U, kTrellisOffset = 2917156712U;
inline constexpr int kTrellisMean = 510;

/// The level of a state: the sum of the bytes of a linear congruential generator, minus its mean. The levels are
/// approximately normally distributed with a standard deviation of 148.
inline int trellisLevel(Index state) {
  const uint32_t z = kTrellisFactor * static_cast<uint32_t>(state) + kTrellisOffset;
  const uint32_t pairs = (z & 0xff00ffU) + (z >> 8 & 0xff00ffU);
  return static_cast<int>((pairs & 0xffffU) + (pairs >> 16)) - kTrellisMean;
}

/// Writes the values of one row; `bits` is 2, 3 or 4. `states` (width): the state of each column, which is updated, for
/// sequences along the columns; null: the row is one sequence.
void decodeTrellis(const uint8_t* row, int bits, Index width, float scale, const float* column_scales, uint16_t* states,
                   float* out);

}  // namespace heed
