#include "train/losses/loss.h"

#include <cmath>
#include <string>

#include "core/check.h"

namespace heed::train {
namespace {

void requireEach(const char* argument, const losses::Factors& factors, const char* expected, bool (*is_legal)(float)) {
  for (size_t i = 0; i < factors.values.size(); ++i) {
    const float value = factors.values[i];
    if (!(std::isfinite(value) && is_legal(value)))
      throwInvalid(ErrorCode::kInvalidArgument, argument, expected,
                   numberText(static_cast<double>(value)) + " for entry " + std::to_string(i));
  }
}

}  // namespace

void requireOnePerRow(const char* argument, size_t got, Index rows) {
  if (static_cast<Index>(got) != rows)
    throwShapeMismatch(argument, Shape{rows}.toString() + ", one per row", Shape{static_cast<Index>(got)});
}

void requireWeights(const losses::Factors& weights) {
  requireEach("weights", weights, "finite numbers >= 0", [](float value) { return value >= 0; });
}

void requireExposure(const losses::Factors& exposure) {
  requireEach("exposure", exposure, "finite numbers > 0", [](float value) { return value > 0; });
}

double totalOf(const losses::Factors& weights, Index count) {
  if (weights.values.empty()) return static_cast<double>(count);
  double total = 0;
  for (Index i = 0; i < count; ++i) total += weights.at(i);
  return total > 0 ? total : 1;
}

}  // namespace heed::train
