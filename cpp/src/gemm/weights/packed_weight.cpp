#include "gemm/weights/packed_weight.h"

#include <limits>

#include "core/check.h"
#include "gemm/weights/float32.h"
#include "gemm/weights/int8.h"

namespace heed {

std::unique_ptr<PackedWeight> PackedWeight::create(Index out, Index in, Precision precision, bool full_range) {
  if (precision == Precision::kInt8) return std::make_unique<Int8Weight>(out, in, full_range);
  return std::make_unique<Float32Weight>(out, in);
}

PackedWeight::PackedWeight(Index out, Index in, Index steps, Index step_bytes)
    : out_(out), in_(in), steps_(steps), step_bytes_(step_bytes) {
  const Shape shape{out, in};
  const double bytes = static_cast<double>(panels()) * static_cast<double>(steps) * static_cast<double>(step_bytes);
  if (bytes > static_cast<double>(std::numeric_limits<Index>::max())) throwOutOfMemory("weight", shape, bytes);
  // At least one cache line, so that panel(0) exists even for an empty weight.
  const auto lines = static_cast<size_t>(bytes) / sizeof(CacheLine) + 1;
  allocating("weight", shape, bytes, [&] { storage_ = Zeroed<CacheLine>(lines); });
}

}  // namespace heed
