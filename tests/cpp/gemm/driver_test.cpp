#include "gemm/driver.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "gemm/weights/int8_steps.h"

namespace heed {
namespace {

/// Keeps the bits of the sums of one tile.
struct Kept {
  std::vector<uint32_t>* out;
  template <int R, int P>
  void write(Index, const v128_t (&sums)[R][2 * P]) const {
    out->resize(sizeof(sums) / sizeof(uint32_t));
    std::memcpy(out->data(), sums, sizeof(sums));
  }
};

/// Two rows by one panel, over `k`.
template <class Step>
std::vector<uint32_t> product(const std::vector<uint32_t>& left, const std::vector<std::byte>& panel,
                              std::vector<Range> k) {
  std::vector<uint32_t> sums;
  const Range columns = {0, 8};
  multiplyRowBlock<Step>(2, left.data(), {panel.data(), static_cast<Index>(panel.size())}, std::span<const Range>(k),
                         std::span(&columns, 1), Kept{&sums});
  return sums;
}

/// Expects a product over two ranges of k to equal the product over one range whose panel lacks the steps in between.
/// `word` and `value` are the operands, which depend on the type of the step.
template <class Step>
void expectRangesSkipSteps(uint32_t word, std::byte value) {
  constexpr Index kRun = 4, kSkipped = 4;  // whole groups of steps
  std::vector<uint32_t> left(static_cast<size_t>(2 * kRun * 2 * Step::kWords));
  for (size_t i = 0; i < left.size(); ++i) left[i] = word + static_cast<uint32_t>(i);
  std::vector<std::byte> whole(static_cast<size_t>((2 * kRun + kSkipped) * Step::kBytes));
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = i % 4 == 3 ? value : static_cast<std::byte>(i % 7);
  std::vector<std::byte> parts = whole;
  parts.erase(parts.begin() + kRun * Step::kBytes, parts.begin() + (kRun + kSkipped) * Step::kBytes);
  EXPECT_EQ(product<Step>(left, whole, {{0, kRun}, {kRun + kSkipped, 2 * kRun + kSkipped}}),
            product<Step>(left, parts, {{0, 2 * kRun}}));
}

TEST(MultiplyRowBlock, TakesSeveralRangesOfKWithOneWordAndWithSeveralPerStep) {
  expectRangesSkipSteps<FloatStep>(0x3f800000, std::byte{0x40});
  expectRangesSkipSteps<WideDotStep>(0x00030001, std::byte{5});
}

}  // namespace
}  // namespace heed
