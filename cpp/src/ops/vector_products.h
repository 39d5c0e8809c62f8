#pragma once

#include <cstdint>

#include "heed/tensor.h"

/// Products of queries with many rows, and their Hamming distances: the inner loops of VectorIndex.
/// Rows and queries lie `stride` entries apart; the entries after their last are zeros.
namespace heed {

/// Rows that a kernel takes at a time: they stay in the first-level cache for all queries of a call.
constexpr Index kRowsPerCall = 64;

/// The stride of rows, in bytes, is a multiple of this.
constexpr Index kStrideStep = 16;

/// Two queries share the work of reading the rows.
constexpr Index kQueriesPerCall = 2;

/// sums[q][n] = query q . row n, for n < count <= kRowsPerCall and q < queries <= kQueriesPerCall. Of integers,
/// exactly: requires the sums of the magnitudes of all products to fit into 32 bits.
void vectorProducts(const int8_t* rows, Index count, Index stride, const int16_t* query, Index queries,
                    int32_t (*sums)[kRowsPerCall]);
void vectorProducts(const float* rows, Index count, Index stride, const float* query, Index queries,
                    float (*sums)[kRowsPerCall]);

/// sums[r] = query . rows[r] of four rows anywhere.
void fourProducts(const int8_t* const (&rows)[4], Index stride, const int16_t* query, int32_t (&sums)[4]);
void fourProducts(const float* const (&rows)[4], Index stride, const float* query, float (&sums)[4]);

/// Coarse products are those with queries of few bits, in which instruction sets multiply more at a time: entries are
/// integers from -L to L, to which L + 1 is added. Returns L; 0 if there are no such instructions.
int coarseLevels();

/// Queries that are multiplied at a time.
constexpr Index kCoarseQueries = 4;

/// Their stride is a multiple of this; they may be multiplied with rows up to the next multiple of it.
constexpr Index kCoarseStep = 32;

/// sums[q][n] = offsets[n] + query q . row n, exactly, for n < count <= kRowsPerCall and q < kCoarseQueries. The
/// entries of queries are at most 2 L + 1.
void coarseProducts(const int8_t* rows, Index count, Index stride, const uint8_t* queries, Index query_stride,
                    const int32_t* offsets, int32_t (*sums)[kRowsPerCall]);

/// The selected rows of a call, in ascending order, with a score or a distance for each.
template <class T>
struct Selected {
  Index count = 0;
  Index rows[kRowsPerCall];
  T values[kRowsPerCall];
};

/// Selects the rows whose score, scale factors[n] sums[n], reaches `limit`.
void selectScores(const int32_t* sums, Index count, const float* factors, float scale, float limit,
                  Selected<float>& selected);
void selectScores(const float* sums, Index count, const float* factors, float scale, float limit,
                  Selected<float>& selected);

/// Selects the rows that differ from the query in at most `limit` bits.
void selectNear(const uint8_t* rows, Index count, Index stride, const uint8_t* query, int32_t limit,
                Selected<int32_t>& selected);

/// The signs of a row: for each entry a bit, 1 where it is positive, the first entry in the lowest bit of the first
/// byte. `stride` of them, a multiple of 16.
void packSigns(const int8_t* row, Index stride, uint8_t* signs);
void packSigns(const float* row, Index stride, uint8_t* signs);

}  // namespace heed
