#pragma once

#include <cmath>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "heed/tensor.h"

/// What the core asks of its callers, in the words that an Error says it with: the argument by its public name, what
/// came, what is legal.
namespace heed {

[[noreturn]] inline void refuse(ErrorCode code, const char* argument, const std::string& got,
                                const std::string& expected) {
  throw Error(code, std::string(argument) + ": got " + got + "; expected " + expected);
}

inline void requireAtLeast(const char* argument, Index got, Index least) {
  if (got < least)
    refuse(ErrorCode::kInvalidArgument, argument, std::to_string(got), "at least " + std::to_string(least));
}

/// A dropout rate.
inline void requireRate(const char* argument, float got) {
  if (!(got >= 0 && got <= 1)) refuse(ErrorCode::kInvalidArgument, argument, numberText(got), "a rate in [0, 1]");
}

/// A norm's epsilon.
inline void requireEps(float got) {
  if (!(got >= 0 && std::isfinite(got)))
    refuse(ErrorCode::kInvalidArgument, "eps", numberText(got), "a finite number >= 0");
}

/// The base of sinusoidal and rotary positions.
inline void requireBase(double got) {
  if (!(got > 0 && std::isfinite(got)))
    refuse(ErrorCode::kInvalidArgument, "base", numberText(got), "a finite number > 0");
}

inline void requireShape(const char* argument, const Shape& got, const Shape& expected) {
  if (got != expected) refuse(ErrorCode::kShapeMismatch, argument, "shape " + got.toString(), expected.toString());
}

inline void requireShape(const char* argument, const ConstMatrixView& got, Index rows, Index columns) {
  if (got.rows() != rows || got.cols() != columns)
    requireShape(argument, Shape{got.rows(), got.cols()}, Shape{rows, columns});
}

[[noreturn]] inline void refuseMemory(const char* what, const Shape& shape, double bytes) {
  refuse(ErrorCode::kOutOfMemory, what,
         "shape " + shape.toString() + ", which takes " + (bytes > 1e12 ? "over 10^12" : numberText(bytes)) + " bytes",
         "a size that the memory, which ends at 4 GB, has room for");
}

/// The floats of what is about to be allocated: a WebAssembly memory ends at 4 GB, and natively the same bound keeps an
/// absurd option from eating the machine. The extents are not negative.
inline size_t requireRoom(const char* what, const Shape& shape) {
  constexpr double kMostFloats = (1 << 30) - 1;
  double size = 1;
  for (const Index extent : shape.extents()) size *= static_cast<double>(extent);
  if (size > kMostFloats) refuseMemory(what, shape, 4 * size);
  return static_cast<size_t>(size);
}

/// values.resize(count) for the parameter `what` of `shape`; the system's refusal is an Error that names them.
template <class T>
void allocate(const char* what, const Shape& shape, std::vector<T>& values, size_t count) {
  try {
    values.resize(count);
    return;
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {  // beyond the address space
  }
  refuseMemory(what, shape, static_cast<double>(sizeof(T)) * static_cast<double>(count));
}

}  // namespace heed
