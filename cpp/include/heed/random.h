#pragma once

#include <array>
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

/// Philox4x32-10: four random words as a function of a counter and a key, without state (Salmon et al. 2011, "Parallel
/// random numbers: as easy as 1, 2, 3"). Which words are drawn, in which order and on which thread changes none of
/// them.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, uint64_t key);

}  // namespace heed
