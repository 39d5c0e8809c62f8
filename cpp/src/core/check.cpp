#include "core/check.h"

#include <cmath>
#include <new>
#include <stdexcept>

namespace heed {

void refuse(ErrorCode code, const std::string& argument, const std::string& got, const std::string& expected) {
  throw Error(code, argument + ": got " + got + "; expected " + expected);
}

void refuseShape(const std::string& argument, const Shape& got, const std::string& expected) {
  refuse(ErrorCode::kShapeMismatch, argument, "shape " + got.toString(), expected);
}

void refuseMemory(const std::string& what, const Shape& shape, double bytes) {
  refuse(ErrorCode::kOutOfMemory, what, "shape " + shape.toString() + ", which takes " + numberText(bytes) + " bytes",
         "a size that fits into 4 GB of memory");
}

void requireAtLeast(const char* argument, Index got, Index least) {
  if (got < least)
    refuse(ErrorCode::kInvalidArgument, argument, std::to_string(got), "at least " + std::to_string(least));
}

void requireRange(const std::string& argument, Index got, Index least, Index most) {
  if (got >= least && got <= most) return;
  refuse(ErrorCode::kInvalidArgument, argument, std::to_string(got),
         std::to_string(least) + " to " + std::to_string(most));
}

void requireRate(const char* argument, float got) {
  if (!(got >= 0 && got <= 1)) refuse(ErrorCode::kInvalidArgument, argument, numberText(got), "a rate in [0, 1]");
}

void requireEps(float got) {
  if (!(got >= 0 && std::isfinite(got)))
    refuse(ErrorCode::kInvalidArgument, "eps", numberText(got), "a finite number >= 0");
}

void requireBase(double got) {
  if (!(got > 0 && std::isfinite(got)))
    refuse(ErrorCode::kInvalidArgument, "base", numberText(got), "a finite number > 0");
}

void requireShape(const std::string& argument, const Shape& got, const Shape& expected) {
  if (got != expected) refuseShape(argument, got, expected.toString());
}

void requireShape(const char* argument, const ConstMatrixView& got, Index rows, Index columns) {
  if (got.rows() != rows || got.cols() != columns)
    refuseShape(argument, Shape{got.rows(), got.cols()}, Shape{rows, columns}.toString());
}

size_t requireRoom(const char* what, const Shape& shape) {
  constexpr double kMostFloats = (1 << 30) - 1;
  double size = 1;
  for (const Index extent : shape.extents()) size *= static_cast<double>(extent);
  if (size > kMostFloats) refuseMemory(what, shape, 4 * size);
  return static_cast<size_t>(size);
}

void allocating(const char* what, const Shape& shape, double bytes, const std::function<void()>& allocation) {
  try {
    allocation();
  } catch (const std::bad_alloc&) {
    refuseMemory(what, shape, bytes);
  } catch (const std::length_error&) {  // beyond the address space
    refuseMemory(what, shape, bytes);
  }
}

void allocate(const char* what, const Shape& shape, std::vector<float>& values) {
  const size_t size = requireRoom(what, shape);
  allocating(what, shape, 4.0 * static_cast<double>(size), [&] { values.resize(size); });
}

}  // namespace heed
