#include "heed/random.h"

namespace heed {
namespace {

uint64_t splitMix64(uint64_t& x) {
  x += 0x9e3779b97f4a7c15u;
  uint64_t z = x;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint32_t rotateLeft(uint32_t x, int k) { return (x << k) | (x >> (32 - k)); }

}  // namespace

Generator::Generator(uint64_t seed) {
  const uint64_t low = splitMix64(seed), high = splitMix64(seed);
  state_[0] = static_cast<uint32_t>(low);
  state_[1] = static_cast<uint32_t>(low >> 32);
  state_[2] = static_cast<uint32_t>(high);
  state_[3] = static_cast<uint32_t>(high >> 32);
}

uint32_t Generator::next() {
  const uint32_t result = rotateLeft(state_[0] + state_[3], 7) + state_[0];
  const uint32_t t = state_[1] << 9;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = rotateLeft(state_[3], 11);
  return result;
}

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, uint64_t key) {
  constexpr uint64_t kMultipliers[] = {0xd2511f53, 0xcd9e8d57};
  auto low = static_cast<uint32_t>(key), high = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = kMultipliers[0] * counter[0], b = kMultipliers[1] * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ low, static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ high, static_cast<uint32_t>(a)};
    low += 0x9e3779b9;  // Weyl sequences with the golden ratio and sqrt(3) - 1
    high += 0xbb67ae85;
  }
  return counter;
}

}  // namespace heed
