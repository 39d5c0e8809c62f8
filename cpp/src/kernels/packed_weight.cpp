#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/matmul.h"
#include "kernels/tile.h"

namespace heed {

PackedWeight::PackedWeight(Index out, Index in, Precision precision) : out_(out), in_(in), precision_(precision) {
  const bool is_int8 = precision == Precision::kInt8;
  steps_ = is_int8 ? int8Steps(in) : in;
  step_bytes_ = 8 * (is_int8 ? kInt8Group : static_cast<Index>(sizeof(float)));
  // One line even for an empty weight, so that panel(0) is a place.
  storage_.resize(static_cast<size_t>(Shape{panels(), steps_, step_bytes_}.size()) / sizeof(CacheLine) + 1);
  if (!is_int8) return;
  scales_.resize(static_cast<size_t>(8 * panels()));
  sums_.resize(static_cast<size_t>(8 * panels()));
  if (kInt8Together != 2) return;
  const Index marks = steps_ / 2 + 1;
  wide_.resize(static_cast<size_t>(panels() * marks));
  for (Index p = 1; p <= panels(); ++p) wide_[static_cast<size_t>(p * marks - 1)] = 1;
}

std::byte* PackedWeight::element(Index row, Index k) {
  std::byte* panel = storage_[0].bytes + row / 8 * panelBytes();
  return precision_ == Precision::kFloat32 ? panel + (8 * k + row % 8) * static_cast<Index>(sizeof(float))
                                           : panel + (k / kInt8Group * 8 + row % 8) * kInt8Group + k % kInt8Group;
}

void PackedWeight::write(Index first, Index count, const float* rows) {
  std::vector<signed char> quantized(precision_ == Precision::kInt8 ? static_cast<size_t>(in_) : 0);
  for (Index row = first; row < first + count; ++row, rows += in_) {
    if (precision_ == Precision::kFloat32) {
      std::byte* to = element(row, 0);
      for (Index k = 0; k < in_; ++k, to += step_bytes_) std::memcpy(to, rows + k, sizeof(float));
      continue;
    }
    float largest = 0;
    for (Index k = 0; k < in_; ++k) largest = std::max(largest, std::fabs(rows[k]));
    const float scale = largest / 127;
    const float inverse = scale > 0 ? 1 / scale : 0;
    for (Index k = 0; k < in_; ++k) {
      quantized[static_cast<size_t>(k)] =
          static_cast<signed char>(std::clamp(std::nearbyint(rows[k] * inverse), -127.0f, 127.0f));
    }
    writeInt8(row, 1, quantized.data(), &scale);
  }
}

void PackedWeight::writeInt8(Index first, Index count, const signed char* rows, const float* scales) {
  if (precision_ == Precision::kFloat32) {
    std::vector<float> widened(static_cast<size_t>(in_));
    for (Index r = 0; r < count; ++r) {
      for (Index k = 0; k < in_; ++k)
        widened[static_cast<size_t>(k)] = scales[r] * static_cast<float>(rows[r * in_ + k]);
      write(first + r, 1, widened.data());
    }
    return;
  }
  for (Index row = first; row < first + count; ++row, rows += in_, ++scales) {
    int32_t sum = 0;
    for (Index k = 0; k < in_; ++k) {
      *element(row, k) = static_cast<std::byte>(rows[k]);
      sum += rows[k];
    }
    scales_[static_cast<size_t>(row)] = *scales;
    sums_[static_cast<size_t>(row)] = static_cast<float>(sum);
    if (kInt8Together == 2) markWide(row);
  }
}

void PackedWeight::markWide(Index row) {
  uint8_t* marks = wide_.data() + row / 8 * (steps_ / 2 + 1);
  const auto bit = static_cast<uint8_t>(1 << row % 8);
  const std::byte* four = element(row, 0);
  for (Index s = 0; s < steps_ / 2; ++s, four += 2 * step_bytes_) {
    bool is_wide = false;
    for (int pair = 0; pair < 4; pair += 2) {
      int positive = 0, negative = 0;
      for (const std::byte* two : {four + pair, four + step_bytes_ + pair}) {
        for (int i = 0; i < 2; ++i) {
          const int weight = static_cast<signed char>(two[i]);
          (weight > 0 ? positive : negative) += weight;
        }
      }
      is_wide |= std::max(positive, -negative) * 127 > std::numeric_limits<int16_t>::max();
    }
    marks[s] = static_cast<uint8_t>(is_wide ? marks[s] | bit : marks[s] & ~bit);
  }
}

void PackedWeight::read(Index first, Index count, float* rows) const {
  for (Index row = first; row < first + count; ++row, rows += in_) {
    if (precision_ == Precision::kFloat32) {
      const std::byte* from = element(row, 0);
      for (Index k = 0; k < in_; ++k, from += step_bytes_) std::memcpy(rows + k, from, sizeof(float));
    } else {
      const float scale = scales_[static_cast<size_t>(row)];
      for (Index k = 0; k < in_; ++k) rows[k] = scale * static_cast<float>(static_cast<signed char>(*element(row, k)));
    }
  }
}

}  // namespace heed
