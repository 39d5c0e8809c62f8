#include "core/encoded_rows.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/coded_rows.h"
#include "gemm/weights/packed_weight.h"
#include "heed/linear.h"
#include "support.h"

namespace heed {
namespace {

using namespace test;

/// Writes `bytes` as rows of a parameter.
void writeBytes(const Parameter& parameter, int64_t first, std::string_view type, const std::vector<uint8_t>& bytes,
                const std::vector<float>& scales = {}) {
  Arena arena;
  writeEncodedRows(
      parameter, first,
      {.type = type,
       .bytes = static_cast<int64_t>(bytes.size()),
       .scales = scales,
       .copy = [&](int64_t begin, Index count,
                   std::byte* out) { std::memcpy(out, bytes.data() + begin, static_cast<size_t>(count)); }},
      arena);
}

/// A parameter whose values are a vector, and NaN at first.
struct Plain {
  std::vector<float> values;
  Parameter parameter;

  explicit Plain(const Shape& shape)
      : values(static_cast<size_t>(shape.size()), std::nanf("")),
        parameter(plainParameter("weight", shape, values.data(), ParameterKind::kWeight, {})) {}
};

std::vector<uint8_t> words(std::initializer_list<uint16_t> all) {
  std::vector<uint8_t> bytes;
  for (const uint16_t word : all) {
    bytes.push_back(static_cast<uint8_t>(word));
    bytes.push_back(static_cast<uint8_t>(word >> 8));
  }
  return bytes;
}

TEST(EncodedRows, HaveTheValuesOfTheirTypes) {
  Plain plain({3, 2});
  // 1, -2, the largest and the smallest number of fp16, 0 and -infinity.
  writeBytes(plain.parameter, 0, "F16", words({0x3c00, 0xc000, 0x7bff, 0x0001, 0, 0xfc00}));
  EXPECT_EQ(plain.values, (std::vector<float>{1, -2, 65504, 0x1p-24f, 0, -kInfinity}));
  writeBytes(plain.parameter, 1, "BF16", words({0x3f80, 0xc040}));
  EXPECT_EQ(plain.values, (std::vector<float>{1, -2, 1, -3, 0, -kInfinity}));
  writeBytes(plain.parameter, 0, "F32", {0, 0, 0x80, 0x3f, 0, 0, 0, 0x40});
  EXPECT_EQ(plain.values, (std::vector<float>{1, 2, 1, -3, 0, -kInfinity}));
  writeBytes(plain.parameter, 1, "I8", {3, 0xff, 100, 0x80}, {0.5f, 2});
  EXPECT_EQ(plain.values, (std::vector<float>{1, 2, 1.5f, -0.5f, 200, -256}));
}

TEST(EncodedRows, OfCodesAreThoseOfTheDecoders) {
  constexpr Index kRows = 3, kWidth = 10;
  for (const auto& [type, code, count] : {std::tuple{"int4", RowCode::kInt4, kRows},
                                          {"trellis2", RowCode::kTrellis2, kRows + kWidth},
                                          {"trellis3", RowCode::kTrellis3, kRows + kWidth},
                                          {"trellis4", RowCode::kTrellis4, kRows + kWidth}}) {
    std::vector<uint8_t> bytes(static_cast<size_t>(kRows * codedRowBytes(code, kWidth)));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(37 * i + 11);
    std::vector<float> scales;
    for (Index i = 0; i < count; ++i) scales.push_back(0.25f * static_cast<float>(i + 1));
    Plain plain({kRows, kWidth});
    writeBytes(plain.parameter, 0, type, bytes, scales);
    const CodedRows rows{code, kWidth, bytes.data(), scales.data(), scales.data() + kRows};
    std::vector<float> expected(kRows * kWidth);
    for (Index r = 0; r < kRows; ++r) rows.decode(r, expected.data() + r * kWidth);
    EXPECT_EQ(plain.values, expected) << type;
  }
}

TEST(EncodedRows, OutliersReplaceWeightsAndOthersAreIgnored) {
  Plain plain({2, 8});
  std::vector<float> scales(2 + 8, 1);
  const auto outlier = [&](float row, float column, float value) { scales.insert(scales.end(), {row, column, value}); };
  outlier(1, 3, 42);
  for (const float bad : {std::nanf(""), kInfinity, -1.0f, 3e9f, -3e38f}) {
    outlier(bad, 0, 7);
    outlier(0, bad, 7);
  }
  writeBytes(plain.parameter, 0, "trellis3columns", std::vector<uint8_t>(2 * 3, 0), scales);
  for (size_t i = 0; i < plain.values.size(); ++i)
    EXPECT_TRUE(plain.values[i] == (i == 11 ? 42 : plain.values[0]) && plain.values[i] != 7) << i;
}

TEST(EncodedRows, RejectWhatDoesNotFit) {
  using enum ErrorCode;
  Plain plain({3, 2}), odd({2, 3}), narrow({3, 0}), none({0, 2});
  const auto with = [](const Plain& to, int64_t first, std::string_view type, size_t bytes, size_t scales = 0) {
    return [&to, first, type, bytes, scales] {
      writeBytes(to.parameter, first, type, std::vector<uint8_t>(bytes), std::vector<float>(scales));
    };
  };
  expectError(kShapeMismatch, "weight: expected complete rows of shape [3, 2], got 9 bytes of F32 from row 0",
              with(plain, 0, "F32", 9));
  expectError(kShapeMismatch, "weight: expected complete rows", with(plain, 2, "F32", 16));
  expectError(kShapeMismatch, "weight: expected complete rows", with(plain, -1, "F32", 8));
  expectError(kShapeMismatch, "weight: expected complete rows", with(plain, int64_t{1} << 40, "F32", 0));
  expectError(kShapeMismatch, "scales: expected 2 values, got 1", with(plain, 0, "I8", 4, 1));
  expectError(kShapeMismatch, "scales: expected 4 values, got 5", with(plain, 0, "trellis3", 6, 5));
  expectError(kShapeMismatch, "scales: expected 4 values, got 5", with(plain, 0, "trellis3columns", 6, 5));
  expectError(kInvalidArgument, "dtype: expected a type of rows, got 'F64'", with(plain, 0, "F64", 16));
  expectError(kInvalidArgument, "dtype: expected a type of rows, got 'int4columns'", with(plain, 0, "int4columns", 2));
  expectError(kUnsupported, "weight: expected rotated rows as int8", with(plain, 0, "rotated I8", 2, 1));
  expectError(kUnsupported, "weight: expected rows of an even width in 4 bits, got width 3",
              with(odd, 0, "int4", 4, 2));
  // Rows without bytes.
  expectError(kShapeMismatch, "weight: expected complete rows", with(narrow, 0, "F32", 4));
  for (const char* type : {"F32", "F16"}) {
    with(narrow, 0, type, 0)();
    with(none, 0, type, 0)();
  }
  for (const float value : plain.values) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace heed
