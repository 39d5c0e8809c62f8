#pragma once

#include "heed/dropout.h"
#include "heed/random.h"

namespace heed {

/// The draws of DropoutDraws (ops/dropout_draws.h), one entry at a time, from philox().
class DropoutRow {
 public:
  DropoutRow(const DropoutKey& key, Index sequence, Index head, Index row)
      : row_(static_cast<uint32_t>(row)),
        head_(static_cast<uint32_t>(head)),
        sequence_(static_cast<uint32_t>(sequence)) {
    const auto step = philox({static_cast<uint32_t>(key.step), static_cast<uint32_t>(key.step >> 32), 0, 0}, key.seed);
    key_ = uint64_t{step[1]} << 32 | step[0];
  }
  /// Whether the entry in `column` is dropped with rate p.
  bool drops(Index column, float p) const {
    const auto words = philox({static_cast<uint32_t>(column / 4), row_, head_, sequence_}, key_);
    return static_cast<float>(words[static_cast<size_t>(column % 4)] >> 8) * 0x1p-24f < p;
  }

 private:
  uint32_t row_, head_, sequence_;
  uint64_t key_;
};

}  // namespace heed
