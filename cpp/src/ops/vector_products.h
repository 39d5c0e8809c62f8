#pragma once

#include <cstddef>
#include <cstdint>

#include "heed/tensor.h"

/// Products of queries with many rows, and their Hamming distances: the inner loops of VectorIndex.
/// Rows and queries are `stride` entries apart and padded with zeros.
namespace heed {

/// Maximum number of rows per kernel call: they stay in the first-level cache for all queries of the call.
constexpr Index kRowsPerCall = 64;

/// The stride of rows, in bytes, is a multiple of this.
constexpr Index kStrideStep = 16;

/// Maximum number of queries per kernel call. Two queries share the loads of a row.
constexpr Index kQueriesPerCall = 2;

/// sums[q][n] = query q . row n, for n < count <= kRowsPerCall and q < queries <= kQueriesPerCall. Sums of integers are
/// exact; the sum of the magnitudes of a row's products must fit into 32 bits.
void vectorProducts(const int8_t* rows, Index count, Index stride, const int16_t* query, Index queries,
                    int32_t (*sums)[kRowsPerCall]);
void vectorProducts(const float* rows, Index count, Index stride, const float* query, Index queries,
                    float (*sums)[kRowsPerCall]);

/// sums[r] = query . rows[r] for four rows, which need not be adjacent.
void fourProducts(const int8_t* const (&rows)[4], Index stride, const int16_t* query, int32_t (&sums)[4]);
void fourProducts(const float* const (&rows)[4], Index stride, const float* query, float (&sums)[4]);

/// query . row in double precision, with the same bits in all builds.
double exactProduct(const int8_t* row, const float* query, Index width);
double exactProduct(const float* row, const float* query, Index width);

/// Whether two rows have the same bytes; `stride` is their distance in bytes.
bool equalBytes(const std::byte* a, const std::byte* b, Index stride);

/// Coarse products use queries rounded to few bits, so that one instruction multiplies more entries. An entry from -L
/// to L is stored as entry + L + 1. Returns L, or 0 if this build has no such instruction.
int coarseLevels();

/// Number of coarse queries per call. Their entries are interleaved, so that a row is read once for all of
/// them.
constexpr Index kCoarseQueries = 8;

/// The number of entries of a query that are adjacent. The kernel reads this many entries of a row at a time, and may
/// read beyond the row's stride up to the next multiple.
constexpr Index kCoarseStep = 32;

/// The place of entry k of query q < kCoarseQueries among those of a call.
constexpr Index coarsePlace(Index q, Index k) {
  return (k / kCoarseStep * kCoarseQueries + q) * kCoarseStep + k % kCoarseStep;
}

/// sums[n][q] = query q . row n, exactly, for n < count. Entries of queries are at most 2 L + 1, and 0 beyond the rows'
/// width.
void coarseProducts(const int8_t* rows, Index count, Index stride, const uint8_t* queries,
                    int32_t (*sums)[kCoarseQueries]);

/// A row and a query of a call.
struct CoarsePair {
  Index row, query;
};

/// Selects the pairs whose score, scales[q] * factors[n] * (sums[n][q] + offsets[n]), is at least limits[q]. All
/// kCoarseQueries of scales and limits are read. Returns their number.
Index selectCoarse(const int32_t (*sums)[kCoarseQueries], Index count, const int32_t* offsets, const float* factors,
                   const float* scales, const float* limits, CoarsePair* selected);

/// The selected rows of a call in ascending order, with their scores or distances.
template <class T>
struct Selected {
  Index count = 0;
  Index rows[kRowsPerCall];
  T values[kRowsPerCall];
};

/// Selects the rows whose score, scale * factors[n] * sums[n], is at least `limit`.
void selectScores(const int32_t* sums, Index count, const float* factors, float scale, float limit,
                  Selected<float>& selected);
void selectScores(const float* sums, Index count, const float* factors, float scale, float limit,
                  Selected<float>& selected);

/// Selects the rows that differ from the query in at most `limit` bits.
void selectNear(const uint8_t* rows, Index count, Index stride, const uint8_t* query, int32_t limit,
                Selected<int32_t>& selected);

/// Writes one bit for each of the `stride` entries of a row: 1 if the entry is positive. The first entry is the lowest
/// bit of the first byte. For integers, `stride` is a multiple of 16.
void packSigns(const int8_t* row, Index stride, uint8_t* signs);
void packSigns(const float* row, Index stride, uint8_t* signs);

}  // namespace heed
