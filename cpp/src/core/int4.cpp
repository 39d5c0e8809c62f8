#include "core/int4.h"

#include <algorithm>

#include "core/check.h"

namespace heed {
namespace {

constexpr float kLevels[16] = {-127, -102, -82, -64, -49, -35, -22, -9, 3, 15, 28, 40, 55, 71, 91, 124};

}  // namespace

void decodeInt4(const uint8_t* row, const float* scales, Index width, float* out) {
  for (Index k = 0; k < width; k += 2) {
    const float scale = scales[k / kInt4Group];
    const uint8_t pair = row[k / 2];
    out[k] = scale * kLevels[pair & 15];
    out[k + 1] = scale * kLevels[pair >> 4];
  }
}

void RowStorage::writeInt4(Index first, Index count, Index width, const uint8_t* rows, const float* scales) {
  std::vector<float> row(static_cast<size_t>(width));
  for (Index r = 0; r < count; ++r) {
    decodeInt4(rows + r * width / 2, scales + r * int4Scales(width), width, row.data());
    write(first + r, 1, row.data());
  }
}

Int4Table::Int4Table(Index rows, Index width) : rows_(rows), width_(width) {
  if (width % 2 != 0)
    refuse(ErrorCode::kInvalidArgument, "embeddingDim", "an even width in 4 bits", std::to_string(width));
  const Index row_bytes = width / 2 + 4 * int4Scales(width);
  const double bytes = static_cast<double>(rows) * static_cast<double>(row_bytes);
  allocating("weight", Shape{rows, width}, bytes, [&] {
    values_.resize(static_cast<size_t>(rows * (width / 2)));
    scales_.resize(static_cast<size_t>(rows * int4Scales(width)));
  });
}

void Int4Table::write(Index, Index, const float*) {
  refuse(ErrorCode::kUnsupported, "weight", "4-bit rows, as config.json says", "others");
}

void Int4Table::writeInt8(Index first, Index count, const signed char*, const float*) { write(first, count, nullptr); }

void Int4Table::writeInt4(Index first, Index count, Index, const uint8_t* rows, const float* scales) {
  std::copy_n(rows, count * width_ / 2, values_.data() + first * width_ / 2);
  const Index groups = int4Scales(width_);
  std::copy_n(scales, count * groups, scales_.data() + first * groups);
}

void Int4Table::read(Index first, Index count, float* rows) const {
  for (Index r = first; r < first + count; ++r, rows += width_)
    decodeInt4(values_.data() + r * width_ / 2, scales_.data() + r * int4Scales(width_), width_, rows);
}

}  // namespace heed
