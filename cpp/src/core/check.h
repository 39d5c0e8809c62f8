#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/tensor.h"

/// Argument checks. Every failed check throws an Error through throwInvalid(), which names the argument as in the
/// public API.
namespace heed {

/// Throws Error(code) with the message "argument: expected ..., got ...".
[[noreturn]] void throwInvalid(ErrorCode code, const std::string& argument, const std::string& expected,
                               const std::string& got);

/// Throws kShapeMismatch for an argument with an incompatible shape.
[[noreturn]] void throwShapeMismatch(const std::string& argument, const std::string& expected, const Shape& got);

/// Throws kOutOfMemory for an argument or parameter `what` that needs too many bytes.
[[noreturn]] void throwOutOfMemory(const std::string& what, const Shape& shape, double bytes);

/// Requires an array argument to have `expected` entries.
void requireCount(const char* argument, double got, int64_t expected);
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
/// Requires a number of rows, with any number of columns.
void requireRows(const char* argument, const ConstMatrixView& got, Index rows);
/// Requires a number of columns, with any number of rows.
void requireColumns(const char* argument, const ConstMatrixView& got, Index columns);

/// The index of `name` in `known`. Throws kInvalidArgument for other names; the message lists the known ones.
size_t indexOfName(const char* argument, std::string_view name, std::span<const std::string_view> known);

/// Requires an array of floats with this shape to fit into 4 GB and returns its size in floats. Extents must not be
/// negative. WebAssembly memory is limited to 4 GB; in native builds, the limit keeps unreasonable options from
/// exhausting the machine.
size_t requireRoom(const char* what, const Shape& shape);

/// Calls `allocation`, which allocates `bytes` bytes. If it fails, throws kOutOfMemory, naming `what` and its shape.
void allocating(const char* what, const Shape& shape, double bytes, const std::function<void()>& allocation);

/// Checks the shape with requireRoom(), then resizes `values`; new elements are zero.
void allocate(const char* what, const Shape& shape, std::vector<float>& values);

}  // namespace heed
