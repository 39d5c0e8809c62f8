#pragma once

#include <span>

#include "heed/module.h"

namespace heed {

/// Rows of a table, such as the embeddings of tokens. Notation: T rows, E columns of the table.
struct TableRows {
  const RowStorage* storage;    ///< the table, or null
  const float* plain;           ///< otherwise its values, row-major
  std::span<const Index> rows;  ///< (T) which row of the table each one is
  float scale = 1;              ///< factor on the rows
  bool sparse = false;          ///< the gradient has only the rows that were looked up, as in torch.nn.Embedding
};

/// output (T, E) = the sum of the rows of `tables`, added in that order.
void lookUp(std::span<const TableRows> tables, MatrixView output);

}  // namespace heed
