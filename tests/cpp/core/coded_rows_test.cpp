#include "core/coded_rows.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/error.h"
#include "heed/linear.h"
#include "support.h"

namespace heed {
namespace {

/// Rows of numbers that look random, with scales that are powers of two.
struct Rows {
  Rows(Index count, Index width) : width(width), bytes(static_cast<size_t>(count * int4RowBytes(width))) {
    uint32_t state = 1;
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
    for (Index r = 0; r < count; ++r) scales.push_back(std::ldexp(r % 2 == 0 ? 1.0F : -1.0F, static_cast<int>(-r)));
  }

  /// Decodes a row as docs/quantization.md describes it, with a table of the states.
  std::vector<float> values(Index row) const {
    constexpr int kPositive[16] = {3, 8, 13, 18, 24, 29, 36, 42, 48, 55, 62, 71, 80, 90, 105, 127};
    constexpr int kNext[8][2] = {{0, 1}, {6, 7}, {1, 0}, {7, 6}, {2, 3}, {4, 5}, {3, 2}, {5, 4}};
    const Index row_bytes = int4RowBytes(width), factors = row * row_bytes, indices = factors + (width + 127) / 128;
    const auto half = [&](Index at, Index k) {
      const int byte = bytes[static_cast<size_t>(at + k / 2)];
      return k % 2 == 0 ? byte % 16 : byte / 16;
    };
    std::vector<float> out;
    int state = 0;
    for (Index k = 0; k < width; ++k) {
      if (k % 64 == 0) state = 0;
      const int q = half(indices, k), number = 2 * q + state % 2;
      const int level = number < 16 ? -kPositive[15 - number] : kPositive[number - 16];
      out.push_back(scales[static_cast<size_t>(row)] * static_cast<float>((1 + half(factors, k / 64)) * level));
      state = kNext[state][q % 2];
    }
    return out;
  }

  CodedRows coded(Index r) const { return {RowCode::kInt4, width, row(r), scales.data() + r}; }
  const uint8_t* row(Index r) const { return bytes.data() + r * int4RowBytes(width); }

  Index width;
  std::vector<uint8_t> bytes;
  std::vector<float> scales;
};

TEST(Int4, DecodesByHand) {
  // Factor 3 and the indices 15, 8, 0, 15: the states are 0, 1, 6, 3, which selects levels 30, 17, 0, 31.
  const uint8_t row[] = {2, 0x8f, 0xf0};
  float out[4];
  decodeInt4(row, 0.5F, 4, out);
  EXPECT_EQ(out[0], 1.5F * 105);
  EXPECT_EQ(out[1], 1.5F * 8);
  EXPECT_EQ(out[2], 1.5F * -127);
  EXPECT_EQ(out[3], 1.5F * 127);
}

TEST(Int4, DecodesRowsOfEveryEvenWidth) {
  // Around the ends of groups.
  for (const Index width : {2, 62, 64, 66, 126, 128, 130, 190, 192, 194, 258}) {
    const Rows rows(1, width);
    std::vector<float> out(static_cast<size_t>(width) + 1, 7), expected = rows.values(0);
    decodeInt4(rows.row(0), rows.scales[0], width, out.data());
    expected.push_back(7);  // nothing is written past the row
    EXPECT_EQ(out, expected) << width;
  }
}

TEST(Int4, CountsBytes) {
  EXPECT_EQ(int4RowBytes(2), 1 + 1);
  EXPECT_EQ(int4RowBytes(64), 1 + 32);
  EXPECT_EQ(int4RowBytes(128), 1 + 64);
  EXPECT_EQ(int4RowBytes(130), 2 + 65);
  EXPECT_EQ(int4RowBytes(384), 3 + 192);
}

TEST(Int4, ZeroScalesAndExtremes) {
  Rows rows(1, 66);
  std::vector<float> out(66);
  decodeInt4(rows.row(0), 0, 66, out.data());
  for (const float value : out) EXPECT_EQ(value, 0);
  decodeInt4(rows.row(0), 1e34F, 66, out.data());
  for (const float value : out) EXPECT_TRUE(std::isfinite(value));
}

TEST(Int4, IsWrittenToMatricesByRanges) {
  const Index count = 5, width = 70;
  const Rows rows(count, width);
  for (const Precision precision : {Precision::kFloat32, Precision::kInt8}) {
    const LinearOptions options{.in_features = width, .out_features = count, .bias = false, .precision = precision};
    Linear written(options), expected(options);
    const Parameter weight = written.parameters()[0];
    std::vector<float> row(static_cast<size_t>(width));
    weight.writeCoded(2, 3, rows.coded(2), row.data());
    weight.writeCoded(0, 2, rows.coded(0), row.data());
    for (Index r = 0; r < count; ++r) expected.parameters()[0].write(r, 1, rows.values(r).data());
    std::vector<float> a(static_cast<size_t>(count * width)), b = a;
    weight.read(0, count, a.data());
    expected.parameters()[0].read(0, count, b.data());
    EXPECT_EQ(a, b);
  }
}

TEST(Int4, IsWrittenToPlainParametersAndParts) {
  const Index width = 66;
  const Rows rows(4, width);
  std::vector<float> first(static_cast<size_t>(width)), rest(static_cast<size_t>(3 * width));
  uint64_t written = 0;
  const Parameter parameter{"table", {4, width}, ParameterKind::kWeight, {}, {{1, first.data()}, {3, rest.data()}},
                            &written};
  std::vector<float> row(static_cast<size_t>(width));
  parameter.writeCoded(0, 3, rows.coded(0), row.data());
  EXPECT_EQ(written, 1);
  EXPECT_EQ(first, rows.values(0));
  std::vector<float> expected = rows.values(1);
  const std::vector<float> third = rows.values(2);
  expected.insert(expected.end(), third.begin(), third.end());
  expected.resize(rest.size());
  EXPECT_EQ(rest, expected);
}

TEST(CodedTable, RefusesBytesBeyond32Bits) {
  if constexpr (sizeof(Index) == 4)
    test::expectError(ErrorCode::kOutOfMemory, "weight:", [] { CodedTable table(RowCode::kInt4, 1 << 24, 256); });
}

TEST(CodedTable, ReadsWhatWasWrittenInAnyOrder) {
  const Index count = 5, width = 70;
  const Rows rows(count, width);
  CodedTable table(RowCode::kInt4, count, width);
  EXPECT_EQ(table.rows(), count);
  EXPECT_EQ(table.width(), width);
  const auto write = [&](Index first, Index n) { table.writeCoded(first, n, rows.coded(first), nullptr); };
  write(3, 2);
  write(0, 1);
  write(1, 2);
  for (Index r = 0; r < count; ++r) {
    std::vector<float> out(static_cast<size_t>(width));
    table.read(r, 1, out.data());
    EXPECT_EQ(out, rows.values(r));
  }
}

TEST(CodedTable, IsZeroBeforeItIsWritten) {
  const CodedTable table(RowCode::kInt4, 2, 4);
  std::vector<float> out(8, 1);
  table.read(0, 2, out.data());
  for (const float value : out) EXPECT_EQ(std::abs(value), 0);
}

TEST(CodedTable, RefusesOddWidthsAndOtherRows) {
  const auto code = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    ADD_FAILURE() << "no error";
    return ErrorCode::kOutOfMemory;
  };
  EXPECT_EQ(code([] { CodedTable(RowCode::kInt4, 2, 3); }), ErrorCode::kInvalidArgument);
  CodedTable table(RowCode::kInt4, 2, 4);
  const std::vector<float> floats(4);
  const std::vector<signed char> integers(4);
  EXPECT_EQ(code([&] { table.write(0, 1, floats.data()); }), ErrorCode::kUnsupported);
  EXPECT_EQ(code([&] { test::writeInt8(table, 4, 0, 1, integers.data(), floats.data()); }), ErrorCode::kUnsupported);
  const std::vector<uint8_t> bytes(8);
  const CodedRows others{RowCode::kTrellis3, 4, bytes.data(), floats.data(), floats.data()};
  EXPECT_EQ(code([&] { table.writeCoded(0, 1, others, nullptr); }), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace heed
