/// y_t = sum over all tables w of scale w_{row_t}.
#include "heed/evaluator.h"

namespace heed {

void lookUp(std::span<const TableRows> tables, MatrixView output) {
  const Index width = output.cols();
  for (Index t = 0; t < output.rows(); ++t) {
    auto sum = output.row(t);
    for (const TableRows& table : tables) {
      const Index row = table.rows[static_cast<size_t>(t)];
      if (&table != tables.data()) {
        sum += table.scale * view(table.plain + row * width, 1, width).row(0);
        continue;
      }
      if (table.storage) {
        table.storage->read(row, 1, sum.data());
      } else {
        sum = view(table.plain + row * width, 1, width).row(0);
      }
      if (table.scale != 1) sum *= table.scale;
    }
  }
}

}  // namespace heed
