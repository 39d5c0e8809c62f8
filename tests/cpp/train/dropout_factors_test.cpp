#include "train/ops/dropout_factors.h"

#include "support.h"

namespace heed::test {
namespace {

TEST(TrainDropoutFactors, AreTheDrawsOfDropoutRow) {
  const DropoutKey keys[] = {{0, 0}, {17, 3}, {0xfedcba9876543210, 0x123456789abcdef}};
  for (const DropoutKey& key : keys) {
    for (const float p : {0.0f, 0.1f, 0.5f, 1.0f}) {
      for (const auto& [first, count] : {std::pair<Index, Index>{0, 1}, {0, 130}, {4, 16}, {128, 13}, {8, 0}}) {
        const Index sequence = 5, head = 3, row = 70000;
        std::vector<float> factors(static_cast<size_t>(count) + 1, 77);
        train::dropoutFactors(key, sequence, head, row, p, 2.5f, first, count, factors.data());
        DropoutRow draws(key, sequence, head, row);
        for (Index j = 0; j < count; ++j)
          ASSERT_EQ(factors[static_cast<size_t>(j)], draws.drops(first + j, p) ? 0 : 2.5f) << j;
        EXPECT_EQ(factors.back(), 77);
      }
    }
  }
}

}  // namespace
}  // namespace heed::test
