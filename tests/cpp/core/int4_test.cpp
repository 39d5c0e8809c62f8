#include "core/int4.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/error.h"

namespace heed {
namespace {

/// The levels of docs/quantization.md.
constexpr int kLevels[16] = {-127, -102, -82, -64, -49, -35, -22, -9, 3, 15, 28, 40, 55, 71, 91, 124};

/// Rows whose column k has level (3 row + k) % 16, and a scale per group that is a power of two, so that products are
/// exact. Negative scales occur in files.
struct Rows {
  Rows(Index count, Index width) : width(width), bytes(static_cast<size_t>(count * width / 2)) {
    for (Index r = 0; r < count; ++r) {
      for (Index k = 0; k < width; ++k)
        bytes[static_cast<size_t>((r * width + k) / 2)] |= static_cast<uint8_t>(index(r, k) << (4 * (k % 2)));
      for (Index g = 0; g < int4Scales(width); ++g) scales.push_back(scale(r, g));
    }
  }

  static int index(Index r, Index k) { return static_cast<int>((3 * r + k) % 16); }
  static float scale(Index r, Index g) {
    return (g % 2 == 0 ? 1.0F : -1.0F) * std::ldexp(1.0F, static_cast<int>(g - r));
  }
  static float value(Index r, Index k) { return scale(r, k / 32) * static_cast<float>(kLevels[index(r, k)]); }

  Index width;
  std::vector<uint8_t> bytes;
  std::vector<float> scales;
};

TEST(Int4, DecodesRowsOfEveryEvenWidth) {
  // Around the ends of groups.
  for (const Index width : {2, 30, 32, 34, 62, 64, 66, 96, 100}) {
    const Rows rows(1, width);
    std::vector<float> out(static_cast<size_t>(width) + 1, 7);
    decodeInt4(rows.bytes.data(), rows.scales.data(), width, out.data());
    for (Index k = 0; k < width; ++k) ASSERT_EQ(out[static_cast<size_t>(k)], Rows::value(0, k)) << width << ' ' << k;
    EXPECT_EQ(out.back(), 7) << "written past the row of " << width;
  }
}

TEST(Int4, CountsScales) {
  EXPECT_EQ(int4Scales(2), 1);
  EXPECT_EQ(int4Scales(32), 1);
  EXPECT_EQ(int4Scales(34), 2);
  EXPECT_EQ(int4Scales(384), 12);
}

TEST(Int4Table, ReadsWhatWasWrittenInAnyOrder) {
  const Index count = 5, width = 70;
  const Rows rows(count, width);
  Int4Table table(count, width);
  EXPECT_EQ(table.rows(), count);
  EXPECT_EQ(table.width(), width);
  const auto write = [&](Index first, Index n) {
    table.writeInt4(first, n, width, rows.bytes.data() + first * width / 2,
                    rows.scales.data() + first * int4Scales(width));
  };
  write(3, 2);
  write(0, 1);
  write(1, 2);
  std::vector<float> out(static_cast<size_t>(3 * width));
  table.read(1, 3, out.data());
  for (Index r = 0; r < 3; ++r)
    for (Index k = 0; k < width; ++k) ASSERT_EQ(out[static_cast<size_t>(r * width + k)], Rows::value(r + 1, k));
}

TEST(Int4Table, IsZeroBeforeItIsWritten) {
  const Int4Table table(2, 4);
  std::vector<float> out(8, 1);
  table.read(0, 2, out.data());
  for (const float value : out) EXPECT_EQ(std::abs(value), 0);
}

TEST(Int4Table, RefusesOddWidthsAndOtherRows) {
  const auto code = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    ADD_FAILURE() << "no error";
    return ErrorCode::kOutOfMemory;
  };
  EXPECT_EQ(code([] { Int4Table(2, 3); }), ErrorCode::kInvalidArgument);
  Int4Table table(2, 4);
  const std::vector<float> floats(4);
  const std::vector<signed char> integers(4);
  EXPECT_EQ(code([&] { table.write(0, 1, floats.data()); }), ErrorCode::kUnsupported);
  EXPECT_EQ(code([&] { table.writeInt8(0, 1, integers.data(), floats.data()); }), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace heed
