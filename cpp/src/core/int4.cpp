#include "core/int4.h"

#include <algorithm>
#include <limits>

#include "core/check.h"

namespace heed {
namespace {

/// Symmetric: -127, ..., -3, 3, ..., 127.
constexpr float kLevels[32] = {-127, -105, -90, -80, -71, -62, -55, -48, -42, -36, -29, -24, -18, -13, -8,  -3,
                               3,    8,    13,  18,  24,  29,  36,  42,  48,  55,  62,  71,  80,  90,  105, 127};

int nibble(const uint8_t* bytes, Index i) { return bytes[i / 2] >> (4 * (i % 2)) & 15; }

}  // namespace

void decodeInt4(const uint8_t* row, float scale, Index width, float* out) {
  const uint8_t* indices = row + int4FactorBytes(width);
  for (Index begin = 0; begin < width; begin += kInt4Group) {
    const float step = scale * static_cast<float>(nibble(row, begin / kInt4Group) + 1);
    const Index end = std::min(begin + kInt4Group, width);
    int state = 0;
    for (Index k = begin; k < end; ++k) {
      const int index = nibble(indices, k);
      out[k] = step * kLevels[2 * index + (state & 1)];
      state = (state >> 1) ^ ((state & 1) * 6) ^ (index & 1);
    }
  }
}

void RowStorage::writeInt4(Index first, Index count, Index width, const uint8_t* rows, const float* scales,
                           float* row) {
  for (Index r = 0; r < count; ++r) {
    decodeInt4(rows + r * int4RowBytes(width), scales[r], width, row);
    write(first + r, 1, row);
  }
}

Int4Table::Int4Table(Index rows, Index width) : rows_(rows), width_(width) {
  if (width % 2 != 0)
    refuse(ErrorCode::kInvalidArgument, "embeddingDim", "an even width in 4 bits", std::to_string(width));
  const double bytes = static_cast<double>(rows) * static_cast<double>(int4RowBytes(width) + 4);
  if (bytes > static_cast<double>(std::numeric_limits<Index>::max())) refuseMemory("weight", {rows, width}, bytes);
  allocating("weight", Shape{rows, width}, bytes, [&] {
    values_.resize(static_cast<size_t>(rows * int4RowBytes(width)));
    scales_.resize(static_cast<size_t>(rows));
  });
}

void Int4Table::write(Index, Index, const float*) {
  refuse(ErrorCode::kUnsupported, "weight", "4-bit rows, as config.json says", "rows of another type");
}

void Int4Table::writeInt8(Index first, Index count, const signed char*, const float*) { write(first, count, nullptr); }

void Int4Table::writeRotatedInt8(Index first, Index count, const signed char*, const float*, float*) {
  write(first, count, nullptr);
}

void Int4Table::writeInt4(Index first, Index count, Index, const uint8_t* rows, const float* scales, float*) {
  const Index row_bytes = int4RowBytes(width_);
  std::copy_n(rows, count * row_bytes, values_.data() + first * row_bytes);
  std::copy_n(scales, count, scales_.data() + first);
}

void Int4Table::read(Index first, Index count, float* rows) const {
  for (Index r = first; r < first + count; ++r, rows += width_)
    decodeInt4(values_.data() + r * int4RowBytes(width_), scales_[static_cast<size_t>(r)], width_, rows);
}

}  // namespace heed
