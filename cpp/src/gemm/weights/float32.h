#pragma once

#include "gemm/weights/packed_weight.h"

namespace heed {

/// fp32: a k-step is one value of k, so a panel is (K, 8) floats.
class Float32Weight final : public PackedWeight {
 public:
  /// Throws kOutOfMemory.
  Float32Weight(Index out, Index in);

  void write(Index first, Index count, const float* rows) override;
  void read(Index first, Index count, float* rows) const override;

  const LeftForm& leftForm() const override;
  void multiply(const LeftChunk& left, const Product& product, Range panels, float* sums) const override;
};

}  // namespace heed
