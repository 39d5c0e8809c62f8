#include "heed/error.h"

#include <cmath>
#include <cstdint>

namespace heed {

const char* errorCodeName(ErrorCode code) {
  constexpr const char* kNames[] = {"INVALID_ARGUMENT", "SHAPE_MISMATCH", "OUT_OF_MEMORY", "UNSUPPORTED",
                                    "WORKER_FAILED"};
  return kNames[static_cast<int>(code)];
}

std::string numberText(double value) {
  if (std::isnan(value)) return "NaN";
  const std::string sign = value < 0 ? "-" : "";
  const double size = std::abs(value);
  if (size > 1e12) return sign + (std::isinf(value) ? "Infinity" : "a number beyond 1e12");
  auto millionths = static_cast<uint64_t>(std::llround(size * 1e6));
  std::string text = std::to_string(millionths / 1'000'000);
  millionths %= 1'000'000;
  if (millionths != 0) {
    std::string decimals = std::to_string(1'000'000 + millionths).substr(1);
    decimals.erase(decimals.find_last_not_of('0') + 1);
    text += "." + decimals;
  }
  return sign + text;
}

}  // namespace heed
