#include "heed/module.h"

#include <gtest/gtest.h>

#include "gemm/weights/float32.h"

namespace heed {
namespace {

TEST(Parameter, CallsItsHookAfterWritesInEveryFormat) {
  Float32Weight weight(2, 4);
  int writes = 0;
  const Parameter parameter{
      .name = "weight", .shape = {2, 4}, .initial = {}, .parts = {{2, nullptr, &weight}}, .on_write = [&] {
        ++writes;
      }};
  const float rows[8] = {}, scales[2] = {1, 1};
  const signed char bytes[8] = {};
  const uint8_t nibbles[6] = {};  // per row one byte of factors and two of numbers
  parameter.write(0, 2, rows);
  EXPECT_EQ(writes, 1);
  parameter.writeInt8(0, 2, bytes, scales);
  EXPECT_EQ(writes, 2);
  float row[4];
  parameter.writeInt4(0, 2, nibbles, scales, row);
  EXPECT_EQ(writes, 3);
}

}  // namespace
}  // namespace heed
