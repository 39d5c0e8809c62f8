#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heed/tensor.h"

/// The one way to check an argument and to refuse it. Arguments go by the names of the public API.
namespace heed {

/// Throws Error(code) with the message "argument: got ...; expected ...".
[[noreturn]] void refuse(ErrorCode code, const std::string& argument, const std::string& got,
                         const std::string& expected);

/// Refuses an argument whose shape does not fit.
[[noreturn]] void refuseShape(const std::string& argument, const Shape& got, const std::string& expected);

/// Refuses to allocate `bytes` for the argument or parameter `what`.
[[noreturn]] void refuseMemory(const std::string& what, const Shape& shape, double bytes);

void requireAtLeast(const char* argument, Index got, Index least);
/// least <= got <= most.
void requireRange(const std::string& argument, Index got, Index least, Index most);
/// A dropout rate: in [0, 1].
void requireRate(const char* argument, float got);
/// A norm's epsilon: finite and not negative.
void requireEps(float got);
/// The base of sinusoidal and rotary positions: finite and positive.
void requireBase(double got);
void requireShape(const std::string& argument, const Shape& got, const Shape& expected);
void requireShape(const char* argument, const ConstMatrixView& got, Index rows, Index columns);

/// The number of floats that `shape`, whose extents are not negative, is about to take. A WebAssembly memory ends at
/// 4 GB, and natively the same bound keeps an absurd option from exhausting the machine.
size_t requireRoom(const char* what, const Shape& shape);

/// Runs `allocation` of `bytes` bytes; the system's refusal becomes an Error that names `what` and its shape.
void allocating(const char* what, const Shape& shape, double bytes, const std::function<void()>& allocation);

/// requireRoom(), then `values` with that many zeros.
void allocate(const char* what, const Shape& shape, std::vector<float>& values);

}  // namespace heed
