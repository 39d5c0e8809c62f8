#include "core/trellis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/coded_rows.h"
#include "support.h"

namespace heed {
namespace {

/// Bytes that look random, with scales of rows and columns.
struct Rows {
  Rows(int bits, Index count, Index width)
      : bits(bits), width(width), bytes(static_cast<size_t>(count * trellisRowBytes(bits, width))) {
    uint32_t state = 1;
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
    for (Index r = 0; r < count; ++r) scales.push_back(1.0F / static_cast<float>(r + 3));
    for (Index k = 0; k < width; ++k) column_scales.push_back(static_cast<float>(k % 5 + 1));
  }

  /// The number of column k of row r, one bit at a time.
  int number(Index r, Index k) const {
    const Index plane = (width + 7) / 8;
    int q = 0;
    for (int b = 0; b < bits; ++b)
      q += ((bytes[static_cast<size_t>((r * bits + b) * plane + k / 8)] >> (k % 8)) & 1) * (1 << b);
    return q;
  }
  float value(Index r, Index k, int state) const {
    const uint64_t z = (uint64_t{2853375093} * static_cast<uint64_t>(state) + 2917156712) % (uint64_t{1} << 32);
    const int level = static_cast<int>(z % 256 + z / 256 % 256 + z / 65536 % 256 + z / 16777216) - 510;
    return scales[static_cast<size_t>(r)] * column_scales[static_cast<size_t>(k)] * static_cast<float>(level);
  }
  const uint8_t* row(Index r) const { return bytes.data() + r * trellisRowBytes(bits, width); }

  int bits;
  Index width;
  std::vector<uint8_t> bytes;
  std::vector<float> scales, column_scales;
};

TEST(Trellis, HasLevelsAroundZero) {
  EXPECT_EQ(trellisLevel(0), 0x68 + 0x47 + 0xe0 + 0xad - 510);  // 2917156712 = 0xade04768
  double sum = 0, squares = 0;
  for (Index s = 0; s < kTrellisStates; ++s) {
    sum += trellisLevel(s);
    squares += trellisLevel(s) * trellisLevel(s);
  }
  EXPECT_LT(std::abs(sum / kTrellisStates), 1);
  EXPECT_NEAR(std::sqrt(squares / kTrellisStates), 148, 1);
}

TEST(Trellis, DecodesSequencesAlongRowsAndColumns) {
  for (const int bits : {2, 3, 4}) {
    for (const Index width : {1, 7, 8, 9, 64, 65}) {
      const Index count = 5;
      const Rows rows(bits, count, width);
      std::vector<uint16_t> states(static_cast<size_t>(width));
      std::vector<int> expected_states(static_cast<size_t>(width));
      for (Index r = 0; r < count; ++r) {
        std::vector<float> out(static_cast<size_t>(width) + 1, 7), columns = out;
        const float scale = rows.scales[static_cast<size_t>(r)];
        decodeTrellis(rows.row(r), bits, width, scale, rows.column_scales.data(), nullptr, out.data());
        decodeTrellis(rows.row(r), bits, width, scale, rows.column_scales.data(), states.data(), columns.data());
        int state = 0;
        for (Index k = 0; k < width; ++k) {
          const auto i = static_cast<size_t>(k);
          state = (state * (1 << bits) + rows.number(r, k)) % 8192;
          EXPECT_EQ(out[i], rows.value(r, k, state));
          expected_states[i] = (expected_states[i] * (1 << bits) + rows.number(r, k)) % 8192;
          EXPECT_EQ(columns[i], rows.value(r, k, expected_states[i]));
        }
        EXPECT_EQ(out.back(), 7);  // nothing is written past the row
        EXPECT_EQ(columns.back(), 7);
      }
    }
  }
}

TEST(Trellis, TablesReadWhatWasWritten) {
  const Index count = 6, width = 20;
  const Rows rows(3, count, width);
  CodedTable table(RowCode::kTrellis3, count, width);
  const CodedRows all{RowCode::kTrellis3, width, rows.row(0), rows.scales.data(), rows.column_scales.data()};
  table.writeCoded(4, 2, all.from(4), nullptr);
  table.writeCoded(0, 4, all, nullptr);
  std::vector<float> expected(static_cast<size_t>(width)), out = expected;
  for (Index r = 0; r < count; ++r) {
    all.decode(r, expected.data());
    table.read(r, 1, out.data());
    EXPECT_EQ(out, expected);
  }
}

}  // namespace
}  // namespace heed
