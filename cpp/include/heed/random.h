#pragma once

#include <array>
#include <cstdint>

namespace heed {

/// A seedable stream of uniform draws, for initial parameters and for the seeds of child modules: xoshiro128++ seeded
/// by SplitMix64 (Blackman, Vigna 2021, arXiv:1805.01407). The same seed gives the same draws in every build.
class Generator {
 public:
  explicit Generator(uint64_t seed);
  uint32_t next();
  /// Uniform in [0, 1), 24 bits.
  float uniform() { return static_cast<float>(next() >> 8) * 0x1p-24f; }
  /// Draws a seed for another stream.
  uint64_t fork() {
    const uint64_t high = next();
    return high << 32 | next();
  }

 private:
  uint32_t state_[4];
};

/// Philox4x32-10, for dropout: four random words as a stateless function of a counter and a key (Salmon et al. 2011,
/// "Parallel random numbers: as easy as 1, 2, 3"). The words do not depend on the order in which they are drawn, or on
/// the thread.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, uint64_t key);

}  // namespace heed
