#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "heed/arena.h"
#include "heed/module.h"

/// Rows of parameters as files store them. The files may be damaged or hostile.
namespace heed {

/// Rows in one of these types:
///
///   F32, F16, BF16             little-endian floats
///   I8, rotated I8,            with one scale per row; see RowCode
///   Hadamard I8
///   int4, trellis2, trellis3,  coded rows with one scale per row; for trellises, one per column follows. See
///   trellis4                   core/coded_rows.h and core/trellis.h
///   trellis2columns,           the same, with sequences along the columns that begin with the first row. The scales
///   trellis3columns,           are followed by outliers: row, column and value of each weight that is stored as it is
///   trellis4columns
struct EncodedRows {
  std::string_view type;
  int64_t bytes;                  ///< their number; in 64 bits, because files may be larger than memory
  std::span<const float> scales;  ///< empty for floats
  /// Copies bytes [begin, begin + count) to `out`. Rows are read and converted in chunks, which avoids a second copy of
  /// a large matrix.
  std::function<void(int64_t begin, Index count, std::byte* out)> copy;
};

/// Writes rows [first, ...) of a parameter. Takes all memory before it writes the first row. Throws kShapeMismatch
/// unless there are whole rows, not too many, and as many scales as the type needs; kInvalidArgument for unknown types;
/// kUnsupported for a type that the parameter cannot store.
void writeEncodedRows(const Parameter& parameter, int64_t first, const EncodedRows& rows, Arena& arena);

/// "int4", "trellis2", "trellis3" or "trellis4"; kNone for other names.
RowCode rowCodeNamed(std::string_view name);

}  // namespace heed
