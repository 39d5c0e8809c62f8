#pragma once

#include <cmath>
#include <vector>

#include "heed/attention.h"
#include "support.h"

/// One call of attention with its weights.
namespace heed::test {

struct Attended {
  RowMajorMatrix output;
  std::vector<float> weights;
};

inline Attended attend(const RowMajorMatrix& q, const RowMajorMatrix& k, const RowMajorMatrix& v, Index heads,
                       const Sequences& queries, const Sequences& keys, const AttentionOptions& options = {}) {
  Context context;
  // Initialized with NaN, so that entries that are not written show up.
  const Index width = options.key_heads == 0 ? v.cols() : v.cols() / options.key_heads * heads;
  Attended result{RowMajorMatrix::Constant(q.rows(), width, std::nanf("")), {}};
  result.weights.assign(static_cast<size_t>(attentionWeightsSize(heads, queries, keys)), std::nanf(""));
  attention({valueOf(q), valueOf(k), valueOf(v), queries, keys}, heads, options,
            {window(result.output), result.weights.data()}, context);
  return result;
}

inline Attended attend(const RowMajorMatrix& q, const RowMajorMatrix& k, const RowMajorMatrix& v,
                       const AttentionOptions& options = {}) {
  return attend(q, k, v, 1, Sequences::uniform(1, q.rows()), Sequences::uniform(1, k.rows()), options);
}

}  // namespace heed::test
