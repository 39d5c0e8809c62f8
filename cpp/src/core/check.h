#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/tensor.h"

/// Checks of arguments. Every failed check throws an Error through refuse(). Arguments have their names in the public
/// API.
namespace heed {

/// Throws Error(code) with the message "argument: expected ..., got ...".
[[noreturn]] void refuse(ErrorCode code, const std::string& argument, const std::string& expected,
                         const std::string& got);

/// Throws kShapeMismatch for an argument with an incompatible shape.
[[noreturn]] void refuseShape(const std::string& argument, const std::string& expected, const Shape& got);

/// Throws kOutOfMemory because the argument or parameter `what` needs too many bytes.
[[noreturn]] void refuseMemory(const std::string& what, const Shape& shape, double bytes);

void requireAtLeast(const char* argument, Index got, Index min);
/// Requires min <= got <= max.
void requireRange(const std::string& argument, Index got, Index min, Index max);
/// Requires a dropout rate in [0, 1].
void requireRate(const char* argument, float got);
/// Requires the epsilon of a norm to be finite and not negative.
void requireEps(float got);
/// Requires the base of sinusoidal or rotary positions to be finite and positive.
void requireBase(double got);
void requireShape(const std::string& argument, const Shape& got, const Shape& expected);
void requireShape(const char* argument, const ConstMatrixView& got, Index rows, Index columns);
/// Requires a matrix with any number of columns, or of rows.
void requireRows(const char* argument, const ConstMatrixView& got, Index rows);
void requireColumns(const char* argument, const ConstMatrixView& got, Index columns);

/// The index of `name` in `known`. Throws kInvalidArgument, listing them, for any other name.
size_t indexOfName(const char* argument, std::string_view name, std::span<const std::string_view> known);

/// Requires an array of floats with this shape to fit into 4 GB and returns its size in floats. Extents must not be
/// negative. WebAssembly memory is limited to 4 GB; in native builds, the limit keeps absurd options from exhausting
/// the machine.
size_t requireRoom(const char* what, const Shape& shape);

/// Calls `allocation`, which allocates `bytes` bytes. Throws kOutOfMemory, naming `what` and its shape, if it fails.
void allocating(const char* what, const Shape& shape, double bytes, const std::function<void()>& allocation);

/// requireRoom(), then resizes `values` to that many zeros.
void allocate(const char* what, const Shape& shape, std::vector<float>& values);

}  // namespace heed
