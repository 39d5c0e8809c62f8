#pragma once

#include <span>

#include "heed/module.h"

namespace heed {

/// T rows looked up in a table, such as token embeddings. The table has E columns.
struct TableRows {
  const RowStorage* storage;    ///< the table, or null
  const float* plain;           ///< the table in row-major order, if `storage` is null
  std::span<const Index> rows;  ///< (T) indices of the table's rows
  float scale = 1;              ///< factor on the rows
  bool sparse = false;          ///< store gradients only for the rows that were looked up
};

/// output (T, E) = the sum of the rows looked up in each table, added in the order of `tables`. Only the first table
/// may have a `storage`.
void lookUp(std::span<const TableRows> tables, MatrixView output);

}  // namespace heed
