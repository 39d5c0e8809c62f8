#include "ops/mask.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support.h"

namespace heed {
namespace {

using test::kInfinity;

TEST(MaskKernels, ChangeExactlyTheForbiddenScores) {
  for (Index count = 0; count < 20; ++count) {
    for (Index from = 0; from < 4; ++from) {
      std::vector<float> added, scores, biased;
      for (Index j = 0; j < from + count; ++j) {
        added.push_back(j % 3 == 1 ? -kInfinity : 0.5f * static_cast<float>(j));
        const float score = j % 5 == 1 ? std::nanf("") : j % 5 == 2 ? kInfinity : static_cast<float>(j) - 7;
        scores.push_back(score);
        const bool within = j >= from;
        biased.push_back(within ? (j % 3 == 1 ? -kInfinity : score + 0.5f * static_cast<float>(j)) : score);
      }
      std::vector<float> got = scores;
      applyMask(added.data() + from, count, got.data() + from);
      for (size_t j = 0; j < scores.size(); ++j) {
        const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
        EXPECT_PRED2(same, got[j], biased[j]) << count << " from " << from << ": " << j;
      }
    }
  }
}

TEST(MaskKernels, DetectNaN) {
  for (Index count = 0; count < 14; ++count) {
    std::vector<float> added(static_cast<size_t>(count), -kInfinity);
    EXPECT_FALSE(hasNaN(added.data(), count));
    for (float& each : added) {
      each = std::nanf("");
      EXPECT_TRUE(hasNaN(added.data(), count));
      each = kInfinity;
      EXPECT_FALSE(hasNaN(added.data(), count));
    }
  }
}

TEST(MaskKernels, DetectFullyForbiddenRanges) {
  for (Index count = 0; count < 12; ++count) {
    std::vector<float> added(static_cast<size_t>(count), -kInfinity);
    EXPECT_TRUE(allForbidden(added.data(), count));
    for (float& each : added) {
      each = std::numeric_limits<float>::lowest();
      EXPECT_FALSE(allForbidden(added.data(), count));
      each = -kInfinity;
    }
  }
}

}  // namespace
}  // namespace heed
