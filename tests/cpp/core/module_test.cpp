#include "heed/module.h"

#include <gtest/gtest.h>

#include <vector>

#include "gemm/weights/float32.h"
#include "support.h"

namespace heed {
namespace {

using test::writeInt8;

TEST(Parameter, CountsWritesInEveryFormat) {
  Float32Weight weight(2, 4);
  uint64_t writes = 0;
  const Parameter parameter{
      .name = "weight", .shape = {2, 4}, .initial = {}, .parts = {{2, nullptr, &weight}}, .writes = &writes};
  const float rows[8] = {}, scales[2] = {1, 1};
  const signed char bytes[8] = {};
  const uint8_t nibbles[6] = {};  // per row one byte of factors and two of numbers
  parameter.write(0, 2, rows);
  EXPECT_EQ(writes, 1);
  writeInt8(parameter, 4, 0, 2, bytes, scales);
  EXPECT_EQ(writes, 2);
  float row[4];
  parameter.writeCoded(0, 2, {RowCode::kInt4, 4, nibbles, scales}, row);
  EXPECT_EQ(writes, 3);
}

TEST(Parameter, ConsistsOfRowsOfOtherValues) {
  Float32Weight weight(9, 2);
  std::vector<float> plain(18);
  for (const Parameter::Part& whole : {Parameter::Part{9, nullptr, &weight}, Parameter::Part{9, plain.data()}}) {
    const Parameter all{.name = "all", .shape = {9, 2}, .initial = {}, .parts = {whole}};
    const Parameter own{.name = "own",
                        .shape = {3, 2},
                        .initial = {},
                        .parts = {{2, whole.plain, whole.storage, 5}, {1, whole.plain, whole.storage, 1}}};
    EXPECT_EQ(own.parts[0].key(), whole.key());
    const float rows[] = {1, 2, 3, 4, 5, 6};
    own.write(0, 3, rows);
    float read[6], moved[18];
    own.read(0, 3, read);
    all.read(0, 9, moved);
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(read[i], rows[i]);
      EXPECT_EQ(moved[i < 4 ? 10 + i : i - 2], rows[i]);
    }
    const signed char bytes[] = {4, -2, 3, 1};
    const float scales[] = {0.5f, 2};
    writeInt8(own, 2, 1, 2, bytes, scales);
    all.read(0, 9, moved);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(moved[i < 2 ? 12 + i : i], scales[i / 2] * static_cast<float>(bytes[i]));
  }
}

}  // namespace
}  // namespace heed
