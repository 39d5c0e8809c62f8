#pragma once

#include <cstdint>

namespace heed {

/// Seedable stream of uniform draws (SplitMix64 seeding xoshiro128++: Blackman, Vigna 2021, arXiv:1805.01407). Same
/// seed, same draws, in every build.
class Generator {
 public:
  explicit Generator(uint64_t seed);
  uint32_t next();
  /// Uniform in [0, 1), 24 bits.
  float uniform() { return static_cast<float>(next() >> 8) * 0x1p-24f; }
  /// A seed for a stream of its own.
  uint64_t fork() {
    const uint64_t high = next();
    return high << 32 | next();
  }

 private:
  uint32_t state_[4];
};

}  // namespace heed
