#include "heed/vector_index.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "support.h"
#include "thread_pool_support.h"

namespace heed {
namespace {

using namespace test;

/// Rows of an index, and a search by its definition, in double precision.
struct Corpus {
  VectorForm form;
  Index count, width;
  std::vector<std::byte> bytes;
  std::vector<float> factors;

  Corpus(VectorForm given, Index rows, Index columns, uint64_t seed)
      : form(given), count(rows), width(columns), factors(static_cast<size_t>(rows)) {
    bytes.resize(static_cast<size_t>(count * rowBytes()));
    const RowMajorMatrix values = randomMatrix(count, width, seed);
    for (Index n = 0; n < count; ++n) {
      for (Index k = 0; k < width; ++k) set(n, k, values(n, k));
      factors[static_cast<size_t>(n)] = norm(n) > 0 ? static_cast<float>(1 / norm(n)) : 1;
    }
  }

  Index rowBytes() const {
    if (form == VectorForm::kFloat32) return Index{sizeof(float)} * width;
    return form == VectorForm::kBits ? (width + 7) / 8 : width;
  }

  void set(Index n, Index k, float value) {
    std::byte* row = bytes.data() + n * rowBytes();
    if (form == VectorForm::kFloat32) reinterpret_cast<float*>(row)[k] = value;
    if (form == VectorForm::kInt8) reinterpret_cast<int8_t*>(row)[k] = static_cast<int8_t>(std::lround(127 * value));
    if (form == VectorForm::kBits && value > 0) row[k / 8] |= static_cast<std::byte>(128 >> (k % 8));
  }

  double at(Index n, Index k) const {
    const std::byte* row = bytes.data() + n * rowBytes();
    if (form == VectorForm::kFloat32) return reinterpret_cast<const float*>(row)[k];
    if (form == VectorForm::kInt8) return reinterpret_cast<const int8_t*>(row)[k];
    return static_cast<int>(row[k / 8]) & (128 >> (k % 8)) ? 1 : -1;
  }

  double norm(Index n) const {
    double sum = 0;
    for (Index k = 0; k < width; ++k) sum += at(n, k) * at(n, k);
    return std::sqrt(sum);
  }

  VectorIndex index() const {
    VectorIndex made(form, width);
    made.append(bytes.data(), factors);
    return made;
  }

  float score(const float* query, Index n) const {
    double sum = 0;
    for (Index k = 0; k < width; ++k) sum += query[k] * at(n, k);
    return static_cast<float>(sum * factors[static_cast<size_t>(n)]);
  }

  Index distance(const float* query, Index n) const {
    Index sum = 0;
    for (Index k = 0; k < width; ++k) sum += (query[k] > 0) != (at(n, k) > 0) ? 1 : 0;
    return sum;
  }

  std::vector<VectorHit> best(const float* query, const VectorSearch& options, float threshold) const {
    std::vector<Index> rows(static_cast<size_t>(count));
    std::iota(rows.begin(), rows.end(), Index{0});
    std::erase_if(rows, [&](Index n) {
      return !options.allowed.empty() && (options.allowed[static_cast<size_t>(n / 32)] >> (n % 32) & 1) == 0;
    });
    if (options.candidates > 0) {
      std::sort(rows.begin(), rows.end(),
                [&](Index a, Index b) { return std::pair(distance(query, a), a) < std::pair(distance(query, b), b); });
      rows.resize(std::min(rows.size(), static_cast<size_t>(options.candidates)));
    }
    std::vector<VectorHit> hits;
    for (const Index n : rows) hits.push_back({n, score(query, n)});
    std::erase_if(hits, [&](const VectorHit& hit) { return hit.score < threshold; });
    std::sort(hits.begin(), hits.end(), [](const VectorHit& a, const VectorHit& b) {
      return a.score > b.score || (a.score == b.score && a.row < b.row);
    });
    hits.resize(std::min(hits.size(), static_cast<size_t>(options.top_k)));
    return hits;
  }
};

constexpr VectorForm kForms[] = {VectorForm::kInt8, VectorForm::kBits, VectorForm::kFloat32};

VectorSearch searchFor(Index top_k, Index candidates = 0) {
  return {.top_k = top_k, .thresholds = nullptr, .candidates = candidates, .allowed = {}};
}

void expectHits(const std::vector<VectorHit>& got, const std::vector<VectorHit>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].row, expected[i].row) << "hit " << i;
    EXPECT_EQ(got[i].score, expected[i].score) << "hit " << i;
  }
}

/// The threshold of query q is `threshold` + q / 100.
void expectSearch(const Corpus& corpus, VectorIndex& index, const RowMajorMatrix& queries, VectorSearch options,
                  Context& context, float threshold = -kInfinity) {
  std::vector<float> thresholds;
  for (Index q = 0; q < queries.rows(); ++q) thresholds.push_back(threshold + 0.01f * static_cast<float>(q));
  options.thresholds = thresholds.data();
  std::vector<VectorHit> hits(static_cast<size_t>(queries.rows() * options.top_k));
  std::vector<Index> counts(static_cast<size_t>(queries.rows()));
  index.search(queries.data(), queries.rows(), options, context, hits.data(), counts.data());
  for (Index q = 0; q < queries.rows(); ++q) {
    const auto first = hits.begin() + q * options.top_k;
    SCOPED_TRACE(testing::Message() << "query " << q);
    expectHits({first, first + counts[static_cast<size_t>(q)]},
               corpus.best(queries.row(q).data(), options, thresholds[static_cast<size_t>(q)]));
  }
}

TEST(VectorIndex, FindsTheRowsWithTheBestScores) {
  Context context;
  for (const VectorForm form : kForms) {
    for (const Index width : {1, 3, 8, 15, 16, 17, 96, 130}) {
      for (const Index count : {0, 1, 3, 63, 64, 65, 200}) {
        SCOPED_TRACE(testing::Message() << "form " << static_cast<int>(form) << ", " << count << " x " << width);
        const Corpus corpus(form, count, width, static_cast<uint64_t>(100 * width + count));
        VectorIndex index = corpus.index();
        for (const Index queries : {1, 2, 3, 9}) {
          const RowMajorMatrix q = randomMatrix(queries, width, 7);
          for (const Index top_k : {1, 10, 1000}) expectSearch(corpus, index, q, searchFor(top_k), context);
          expectSearch(corpus, index, q, searchFor(3, 20), context);
          expectSearch(corpus, index, q, searchFor(1000), context, 0.05f);
        }
      }
    }
  }
}

TEST(VectorIndex, SpansBlocksAndThreads) {
  for (const VectorForm form : kForms) {
    const Corpus corpus(form, 9000, 40, 3);
    VectorIndex index = corpus.index();
    const RowMajorMatrix queries = randomMatrix(6, 40, 8);
    for (const Index threads : {1, 2, 5}) {
      Threaded pool(threads);
      expectSearch(corpus, index, queries, searchFor(10), pool.context);
      expectSearch(corpus, index, queries, searchFor(10, 100), pool.context);
      expectSearch(corpus, index, queries, searchFor(9000), pool.context, 0.1f);
    }
  }
}

TEST(VectorIndex, RanksEqualRowsInTheirOrder) {
  Context context;
  for (const VectorForm form : kForms) {
    Corpus corpus(form, 500, 24, 4);
    for (Index n = 1; n < 500; ++n)
      std::copy_n(corpus.bytes.begin(), corpus.rowBytes(), corpus.bytes.begin() + n * corpus.rowBytes());
    std::fill(corpus.factors.begin(), corpus.factors.end(), 0.25f);
    VectorIndex index = corpus.index();
    expectSearch(corpus, index, randomMatrix(1, 24, 5), searchFor(20), context);
    expectSearch(corpus, index, randomMatrix(1, 24, 5), searchFor(20, 40), context);
    expectSearch(corpus, index, RowMajorMatrix::Zero(4, 24), searchFor(20), context);
  }
}

TEST(VectorIndex, RanksCopiesOfTheBestRowInTheirOrder) {
  for (const VectorForm form : kForms) {
    Corpus corpus(form, 5000, 40, 14);
    const RowMajorMatrix queries = randomMatrix(5, 40, 15);
    const Index best = corpus.best(queries.row(0).data(), searchFor(1), -kInfinity)[0].row;
    const std::vector<std::byte> row(corpus.bytes.begin() + best * corpus.rowBytes(),
                                     corpus.bytes.begin() + (best + 1) * corpus.rowBytes());
    for (Index n = 3; n < 5000; n += 7) {
      std::copy(row.begin(), row.end(), corpus.bytes.begin() + n * corpus.rowBytes());
      corpus.factors[static_cast<size_t>(n)] = corpus.factors[static_cast<size_t>(best)];
    }
    VectorIndex index = corpus.index();
    for (const Index threads : {1, 3}) {
      Threaded pool(threads);
      for (const Index top_k : {1, 10, 1000}) expectSearch(corpus, index, queries, searchFor(top_k), pool.context);
      expectSearch(corpus, index, queries, searchFor(10, 900), pool.context);
    }
  }
}

TEST(VectorIndex, DistinguishesScoresThatRoundToTheSameIntegers) {
  Context context;
  // The last entry of the query rounds to 0 in its integers, but only this entry distinguishes the rows.
  Corpus corpus(VectorForm::kInt8, 300, 2, 1);
  for (Index n = 0; n < 300; ++n) {
    corpus.bytes[static_cast<size_t>(2 * n)] = std::byte{100};
    corpus.bytes[static_cast<size_t>(2 * n + 1)] = static_cast<std::byte>(static_cast<int8_t>((n * 37) % 255 - 127));
    corpus.factors[static_cast<size_t>(n)] = 1;
  }
  VectorIndex index = corpus.index();
  RowMajorMatrix query(1, 2);
  query << 1, 1e-5f;
  expectSearch(corpus, index, query, searchFor(5), context);
}

TEST(VectorIndex, HasRoomForTheLargestSumsOfIntegers) {
  Context context;
  constexpr Index kWidth = 1 << 16;
  Corpus corpus(VectorForm::kInt8, 5, kWidth, 1);
  for (Index n = 0; n < 5; ++n) {
    std::fill_n(corpus.bytes.begin() + n * kWidth, kWidth,
                static_cast<std::byte>(static_cast<int8_t>(n == 3 ? 127 : -127)));
    corpus.factors[static_cast<size_t>(n)] = 1e-3f;
  }
  VectorIndex index = corpus.index();
  expectSearch(corpus, index, RowMajorMatrix::Constant(1, kWidth, 1), searchFor(5), context);
  expectSearch(corpus, index, RowMajorMatrix::Constant(4, kWidth, -1), searchFor(5), context);
}

TEST(VectorIndex, PassesOverManyQueriesInGroups) {
  Context context;
  const Corpus corpus(VectorForm::kInt8, 70, 12, 3);
  VectorIndex index = corpus.index();
  expectSearch(corpus, index, randomMatrix(515, 12, 4), searchFor(5), context);
  expectSearch(corpus, index, randomMatrix(515, 12, 4), searchFor(5, 9), context);
}

TEST(VectorIndex, RanksFloatsOfAnyMagnitude) {
  Context context;
  for (const float magnitude : {1e-30f, 1e-15f, 1e15f}) {
    Corpus corpus(VectorForm::kFloat32, 300, 9, 3);
    for (Index i = 0; i < 300 * 9; ++i) reinterpret_cast<float*>(corpus.bytes.data())[i] *= magnitude;
    for (float& factor : corpus.factors) factor = 1;
    VectorIndex index = corpus.index();
    expectSearch(corpus, index, randomMatrix(5, 9, 4), searchFor(10), context);
    expectSearch(corpus, index, randomMatrix(5, 9, 4) * 1e-6f, searchFor(10, 30), context);
  }
}

TEST(VectorIndex, FindsOnlyAllowedRows) {
  Context context;
  for (const VectorForm form : kForms) {
    const Corpus corpus(form, 130, 33, 6);
    VectorIndex index = corpus.index();
    const RowMajorMatrix query = randomMatrix(5, 33, 9);
    for (const std::vector<uint32_t>& allowed : std::vector<std::vector<uint32_t>>{
             {0, 0, 0, 0, 0}, {0x80000001, 0, 0x00f0f000, 0, 2}, {~0u, ~0u, ~0u, ~0u, ~0u}}) {
      for (const Index candidates : {0, 7}) {
        VectorSearch options = searchFor(10, candidates);
        options.allowed = allowed;
        expectSearch(corpus, index, query, options, context);
      }
    }
  }
}

TEST(VectorIndex, AppendsAndRemovesRows) {
  Context context;
  for (const VectorForm form : kForms) {
    const Corpus all(form, 5000, 20, 11);
    const float least = -kInfinity;
    VectorIndex index(form, 20);
    const RowMajorMatrix query = randomMatrix(5, 20, 12);
    Index first = 0;
    for (const Index count : {1, 0, 100, 4100, 799}) {
      index.append(all.bytes.data() + first * all.rowBytes(), {all.factors.data() + first, static_cast<size_t>(count)});
      first += count;
      VectorHit hits[3];
      Index found;
      VectorSearch options = searchFor(3, 10);
      options.thresholds = &least;
      index.search(query.data(), 1, options, context, hits, &found);  // computes the signs
    }
    expectSearch(all, index, query, searchFor(10, 200), context);

    std::vector<uint32_t> kept;
    Corpus rest(form, 0, 20, 1);
    for (Index n = 0; n < 5000; n += n % 3 + 1) {
      kept.push_back(static_cast<uint32_t>(n));
      rest.bytes.insert(rest.bytes.end(), all.bytes.begin() + n * all.rowBytes(),
                        all.bytes.begin() + (n + 1) * all.rowBytes());
      rest.factors.push_back(all.factors[static_cast<size_t>(n)]);
    }
    rest.count = static_cast<Index>(kept.size());
    index.keep(kept);
    ASSERT_EQ(index.count(), rest.count);
    std::vector<std::byte> copied(rest.bytes.size());
    index.copyRows(0, rest.count, copied.data());
    EXPECT_EQ(copied, rest.bytes);
    expectSearch(rest, index, query, searchFor(10), context);
    expectSearch(rest, index, query, searchFor(10, 200), context);
    index.keep({});
    EXPECT_EQ(index.count(), 0);
    expectSearch(Corpus(form, 0, 20, 1), index, query, searchFor(10), context);
  }
}

TEST(VectorIndex, FindsNothingIfNothingIsWanted) {
  for (const VectorForm form : {VectorForm::kInt8, VectorForm::kBits, VectorForm::kFloat32}) {
    const Corpus corpus(form, 300, 24, 1);
    VectorIndex index = corpus.index();
    Context context;
    const RowMajorMatrix query = randomMatrix(1, 24, 2);
    const float none = -kInfinity;
    for (const Index candidates : {0, 5}) {
      Index count = -1;
      index.search(query.data(), 1, {.top_k = 0, .thresholds = &none, .candidates = candidates, .allowed = {}}, context,
                   nullptr, &count);
      EXPECT_EQ(count, 0);
    }
  }
}

TEST(VectorIndex, FindsRowsThatReplaceRemovedOnes) {
  Context context;
  for (const VectorForm form : kForms) {
    for (const Index width : {5, 20, 150}) {
      const Corpus old(form, 40, width, 21), fresh(form, 25, width, 22);
      VectorIndex index = old.index();
      expectSearch(old, index, randomMatrix(1, width, 23), searchFor(3, 10), context);  // computes the signs
      for (const Index kept_rows : {0, 3, 39}) {
        std::vector<uint32_t> kept(static_cast<size_t>(kept_rows));
        std::iota(kept.begin(), kept.end(), 0U);
        index.keep(kept);
        index.append(fresh.bytes.data(), fresh.factors);
        Corpus both = old;
        both.count = kept_rows + fresh.count;
        both.bytes.resize(static_cast<size_t>(kept_rows * old.rowBytes()));
        both.bytes.insert(both.bytes.end(), fresh.bytes.begin(), fresh.bytes.end());
        both.factors.resize(static_cast<size_t>(kept_rows));
        both.factors.insert(both.factors.end(), fresh.factors.begin(), fresh.factors.end());
        // Queries that equal a row, which is then also the nearest by Hamming distance.
        RowMajorMatrix queries(fresh.count, width);
        for (Index n = 0; n < fresh.count; ++n) {
          for (Index k = 0; k < width; ++k) queries(n, k) = static_cast<float>(fresh.at(n, k));
        }
        expectSearch(both, index, queries, searchFor(2, 4), context);
        expectSearch(both, index, queries, searchFor(1, 1), context);
        index.keep({});
        index.append(old.bytes.data(), old.factors);
        expectSearch(old, index, randomMatrix(1, width, 23), searchFor(3, 10), context);
      }
    }
  }
}

TEST(VectorIndex, RefusesWidths) {
  for (const Index width : {-1, 0, 65537})
    expectError(ErrorCode::kInvalidArgument, "width", [&] { VectorIndex(VectorForm::kInt8, width); });
}

}  // namespace
}  // namespace heed
