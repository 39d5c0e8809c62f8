#include "ops/dropout_draws.h"

#include "dropout_row.h"
#include "support.h"

namespace heed::test {
namespace {

TEST(DropoutDraws, AreThoseOfDropoutRow) {
  const DropoutKey keys[] = {{0, 0}, {17, 3}, {0xfedcba9876543210, 0x123456789abcdef}};
  for (const DropoutKey& key : keys) {
    for (const float p : {0.0f, 0.1f, 0.5f, 1.0f}) {
      const Index sequence = 5, head = 3;
      DropoutDraws draws(key, p, sequence, head, 2);
      for (const Index row : {2, 70000}) {
        draws.setRow(row);
        DropoutRow expected(key, sequence, head, row);
        // Keys that a window or a mask leaves out are skipped.
        for (Index column = 0; column < 200; column += column % 7 == 0 ? 19 : 1)
          ASSERT_EQ(draws.drops(column), expected.drops(column, p)) << column;
      }
    }
  }
}

}  // namespace
}  // namespace heed::test
