#pragma once

#include <cstdint>

#include "heed/tensor.h"

/// Products of a few queries with many rows, and their Hamming distances: the inner loops of VectorIndex.
/// Rows lie `stride` entries apart; the entries after their last are zeros.
namespace heed {

/// Rows that a kernel takes at a time: they stay in the first-level cache for all queries of a call.
constexpr Index kRowsPerCall = 64;

/// The stride of rows, in bytes, is a multiple of this.
constexpr Index kStrideStep = 16;

/// Two queries share the work of reading the rows.
constexpr Index kQueriesPerCall = 2;

/// sums[q][n] = query q . row n, exactly, for n < count <= kRowsPerCall and q < queries <= kQueriesPerCall. Requires
/// the sums of the magnitudes of all products to fit into 32 bits.
void int8Products(const int8_t* rows, Index count, Index stride, const int16_t* query, Index queries,
                  int32_t (*sums)[kRowsPerCall]);

/// distances[n] = the number of bits in which row n differs from the query.
void hammingDistances(const uint8_t* rows, Index count, Index stride, const uint8_t* query, int32_t* distances);

/// scores[n] = scale factors[n] sums[n]. Returns whether a score reaches `limit`.
bool scaleScores(const int32_t* sums, Index count, const float* factors, float scale, float limit, float* scores);

/// The signs of a row: for each entry a bit, 1 where it is positive, the first entry in the lowest bit of the first
/// byte.
void packSigns(const int8_t* row, Index stride, uint8_t* signs);

}  // namespace heed
