/// Score biases that depend on the distance j - i: ALiBi, -slope |j - i|, and T5's learned buckets.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/check.h"
#include "core/elementary.h"
#include "heed/attention.h"

namespace heed {
namespace {

/// The geometric series 2^(-8 / heads), 2^(-16 / heads), ..., 2^-8.
std::vector<float> alibiSlopes(Index heads) {
  std::vector<float> slopes;
  for (Index h = 1; h <= heads; ++h)
    slopes.push_back(
        static_cast<float>(elementary::pow(2, -8.0 * static_cast<double>(h) / static_cast<double>(heads))));
  return slopes;
}

/// The bucket of `distance` = j - i, as in T5Attention._relative_position_bucket of transformers: on each side, half of
/// the buckets hold one distance each, the others grow logarithmically up to `bucket_distance`, and the last one holds
/// all larger distances.
Index relativeBucket(Index distance, Index num_buckets, Index bucket_distance, bool bidirectional) {
  const Index side = bidirectional ? num_buckets / 2 : num_buckets;
  const Index first = bidirectional && distance > 0 ? side : 0;
  const Index steps = bidirectional ? std::abs(distance) : std::max<Index>(-distance, 0);
  const Index exact = side / 2;
  if (steps < exact) return first + steps;
  // In fp32 and rounded as in the published code, because rounding matters at the boundaries of buckets.
  const auto logarithm = [](double x) { return static_cast<float>(elementary::log(x)); };
  const float ratio = static_cast<float>(steps) / static_cast<float>(exact);
  const float whole = logarithm(static_cast<double>(bucket_distance) / static_cast<double>(exact));
  const float step = logarithm(ratio) / whole * static_cast<float>(side - exact);
  return first + std::min(side - 1, exact + static_cast<Index>(step));
}

}  // namespace

Index logBucket(Index distance, Index buckets, Index max_distance) {
  const Index middle = buckets / 2, steps = std::abs(distance);
  if (steps <= middle) return distance;
  // In fp32 and rounded as in make_log_bucket_position of transformers.
  const auto logarithm = [](float x) { return static_cast<float>(elementary::log(static_cast<double>(x))); };
  const float ratio = static_cast<float>(steps) / static_cast<float>(middle);
  const double whole = static_cast<double>(max_distance - 1) / static_cast<double>(middle);
  const float step = logarithm(ratio) / logarithm(static_cast<float>(whole)) * static_cast<float>(middle - 1);
  const Index bucket = static_cast<Index>(std::ceil(step)) + middle;
  return distance < 0 ? -bucket : bucket;
}

namespace {

/// A bias without values, after checking that they fit into memory.
PositionBias emptyBias(const char* what, Index num_heads, Index max_distance) {
  requireRoom(what,
              {num_heads, 2, std::max<Index>(max_distance, 1)});  // checked before 2 max_distance + 1 could overflow
  return {max_distance, {}};
}

}  // namespace

PositionBias alibiBias(Index num_heads, Index max_distance) {
  requireAtLeast("numHeads", num_heads, 1);
  requireAtLeast("maxDistance", max_distance, 0);
  PositionBias bias = emptyBias("alibi", num_heads, max_distance);
  // If H is not a power of two, the paper's code uses the slopes for the next smaller power and adds every other slope
  // for the next larger one.
  Index power = 1;
  while (2 * power <= num_heads) power *= 2;
  std::vector<float> slopes = alibiSlopes(power);
  const std::vector<float> finer = alibiSlopes(2 * power);
  for (Index h = 0; power + h < num_heads; ++h) slopes.push_back(finer[static_cast<size_t>(2 * h)]);

  for (const float slope : slopes) {
    for (Index d = -max_distance; d <= max_distance; ++d)
      bias.values.push_back(-slope * static_cast<float>(std::abs(d)));
  }
  return bias;
}

PositionBias relativeBias(ConstMatrixView table, Index max_length, Index bucket_distance, bool bidirectional) {
  const Index num_buckets = table.rows();
  const Index least = bidirectional ? 4 : 2;
  if (num_buckets < least || (bidirectional && num_buckets % 2 != 0)) {
    throwInvalid(ErrorCode::kShapeMismatch, "table",
                 std::string("[buckets, H] with ") +
                     (bidirectional ? "an even number of at least 4 buckets" : "at least 2 buckets"),
                 "shape " + Shape{num_buckets, table.cols()}.toString());
  }
  requireAtLeast("maxDistance", bucket_distance, num_buckets / least + 1);
  requireAtLeast("length", max_length, 0);
  PositionBias bias = emptyBias("relative", table.cols(), max_length);
  for (Index h = 0; h < table.cols(); ++h) {
    for (Index d = -max_length; d <= max_length; ++d) {
      bias.values.push_back(table(relativeBucket(d, num_buckets, bucket_distance, bidirectional), h));
    }
  }
  return bias;
}

void PositionBias::expand(Index num_heads, Index num_queries, Index num_keys, float* output) const {
  for (Index h = 0; h < num_heads; ++h) {
    for (Index i = 0; i < num_queries; ++i) {
      for (Index j = 0; j < num_keys; ++j) *output++ = head(h)[j - i];
    }
  }
}

}  // namespace heed
