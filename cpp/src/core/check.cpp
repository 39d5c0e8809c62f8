#include "core/check.h"

#include <cmath>
#include <new>
#include <stdexcept>

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

void throwInvalid(ErrorCode code, const std::string& argument, const std::string& expected, const std::string& got) {
  throw Error(code, argument + ": expected " + expected + ", got " + got);
}

void throwShapeMismatch(const std::string& argument, const std::string& expected, const Shape& got) {
  throwInvalid(ErrorCode::kShapeMismatch, argument, expected, "shape " + got.toString());
}

void throwOutOfMemory(const std::string& what, const Shape& shape, double bytes) {
  throwInvalid(ErrorCode::kOutOfMemory, what, "a size that fits into 4 GB of memory",
               "shape " + shape.toString() + ", which takes " + numberText(bytes) + " bytes");
}

void requireCount(const char* argument, double got, int64_t expected) {
  if (got == static_cast<double>(expected)) return;
  throwInvalid(ErrorCode::kShapeMismatch, argument, std::to_string(expected) + " values", numberText(got));
}

void requireAtLeast(const char* argument, Index got, Index min) {
  if (got < min)
    throwInvalid(ErrorCode::kInvalidArgument, argument, "at least " + std::to_string(min), std::to_string(got));
}

void requireRange(const std::string& argument, Index got, Index min, Index max) {
  if (got >= min && got <= max) return;
  throwInvalid(ErrorCode::kInvalidArgument, argument,
               "an integer from " + std::to_string(min) + " to " + std::to_string(max), std::to_string(got));
}

void requireRate(const char* argument, float got) {
  if (!(got >= 0 && got <= 1)) throwInvalid(ErrorCode::kInvalidArgument, argument, "a rate in [0, 1]", numberText(got));
}

void requireEps(float got) {
  if (!(got >= 0 && std::isfinite(got)))
    throwInvalid(ErrorCode::kInvalidArgument, "eps", "a finite number >= 0", numberText(got));
}

void requireBase(double got) {
  if (!(got > 0 && std::isfinite(got)))
    throwInvalid(ErrorCode::kInvalidArgument, "base", "a finite number > 0", numberText(got));
}

void requireShape(const std::string& argument, const Shape& got, const Shape& expected) {
  if (got != expected) throwShapeMismatch(argument, expected.toString(), got);
}

void requireShape(const char* argument, const ConstMatrixView& got, Index rows, Index columns) {
  if (got.rows() != rows || got.cols() != columns)
    throwShapeMismatch(argument, Shape{rows, columns}.toString(), Shape{got.rows(), got.cols()});
}

void requireRows(const char* argument, const ConstMatrixView& got, Index rows) {
  requireShape(argument, got, rows, got.cols());
}

void requireColumns(const char* argument, const ConstMatrixView& got, Index columns) {
  requireShape(argument, got, got.rows(), columns);
}

size_t indexOfName(const char* argument, std::string_view name, std::span<const std::string_view> known) {
  std::string legal;
  for (size_t i = 0; i < known.size(); ++i) {
    if (name == known[i]) return i;
    legal += (legal.empty() ? "'" : ", '") + std::string(known[i]) + "'";
  }
  throwInvalid(ErrorCode::kInvalidArgument, argument, "one of " + legal, "'" + std::string(name) + "'");
}

size_t requireRoom(const char* what, const Shape& shape) {
  constexpr double kMaxFloats = (1 << 30) - 1;
  double size = 1;
  for (const Index extent : shape.extents()) size *= static_cast<double>(extent);
  if (size > kMaxFloats) throwOutOfMemory(what, shape, 4 * size);
  return static_cast<size_t>(size);
}

void allocating(const char* what, const Shape& shape, double bytes, const std::function<void()>& allocation) {
  try {
    allocation();
  } catch (const std::bad_alloc&) {
    throwOutOfMemory(what, shape, bytes);
  } catch (const std::length_error&) {  // beyond the address space
    throwOutOfMemory(what, shape, bytes);
  }
}

void allocate(const char* what, const Shape& shape, std::vector<float>& values) {
  const size_t size = requireRoom(what, shape);
  allocating(what, shape, 4.0 * static_cast<double>(size), [&] { values.resize(size); });
}

}  // namespace heed
