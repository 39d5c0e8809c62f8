#pragma once

#include <exception>
#include <string>
#include <utility>

namespace heed {

/// The kind of an Error. JavaScript receives its name as `HeedError.code`.
enum class ErrorCode {
  kInvalidArgument,  ///< a value outside its valid range
  kShapeMismatch,    ///< incompatible shapes
  kOutOfMemory,      ///< the engine could not grow the memory, or a size exceeds what 32-bit memory can hold
  kUnsupported,      ///< valid, but not implemented
  kWorkerFailed,     ///< a thread ended during a call
};

/// "INVALID_ARGUMENT", "SHAPE_MISMATCH", ...
const char* errorCodeName(ErrorCode code);

/// Formats a number for a message, with at most six decimals. (std::to_string of a float would link all of printf into
/// the module.)
std::string numberText(double value);

/// The only exception type that heed throws. The message reads `argument: expected Y, got X`.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorCode code_;
  std::string message_;
};

}  // namespace heed
