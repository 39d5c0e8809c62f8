#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "heed/inference_evaluator.h"
#include "heed/multi_head_attention.h"
#include "heed/random.h"

namespace heed::fuzz {

/// A value for operations that only read it.
inline Value valueOf(const RowMajorMatrix& m) { return Value::constant(view(m.data(), m.rows(), m.cols())); }

/// Decodes choices from the fuzzer's bytes; returns zeros when they are used up.
class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  uint8_t byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  bool flag() { return byte() % 2 == 1; }
  /// Mostly small and valid, sometimes absurd.
  Index extent(Index usual) {
    constexpr auto kMost = std::numeric_limits<Index>::max();
    constexpr Index kAbsurd[] = {0,
                                 -1,
                                 1 << 10,  // valid; larger values take minutes under sanitizers
                                 static_cast<Index>(std::min<int64_t>(int64_t{1} << 31, kMost)),
                                 static_cast<Index>(std::min<int64_t>(int64_t{1} << 40, kMost)),
                                 kMost,
                                 std::numeric_limits<Index>::min()};
    const uint8_t b = byte();
    return b < 250 ? 1 + b % usual : kAbsurd[(b - 250 + byte()) % 7];
  }
  Index length(Index most) { return byte() % (most + 1); }
  /// Mostly in [-4, 4), sometimes arbitrary bits.
  float number() {
    const uint8_t b = byte();
    if (b < 252) return static_cast<float>(b) / 32 - 4;
    uint32_t bits = 0;
    for (int i = 0; i < 4; ++i) bits = bits << 8 | byte();
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  }
  float rate() { return byte() < 230 ? static_cast<float>(byte() % 100) / 100 : number(); }
  Activation activation() { return static_cast<Activation>(byte() % 7); }
  RowMajorMatrix matrix(Index rows, Index columns) {
    RowMajorMatrix m(rows, columns);
    // Finite values from a few bytes, so that short inputs can fill large matrices.
    Generator generator(byte());
    for (Index i = 0; i < m.size(); ++i) m.data()[i] = 8 * generator.uniform() - 4;
    return m;
  }
  Sequences sequences(Index count, Index longest) {
    std::vector<Index> lengths(static_cast<size_t>(count));
    for (Index& one : lengths) one = length(longest);
    return Sequences::ofLengths(lengths);
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

inline MatrixView window(RowMajorMatrix& m) { return view(m.data(), m.rows(), m.cols()); }
inline ConstMatrixView window(const RowMajorMatrix& m) { return view(m.data(), m.rows(), m.cols()); }

[[noreturn]] inline void broken(const char* promise) {
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

}  // namespace heed::fuzz
