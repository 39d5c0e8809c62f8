#pragma once

#include <exception>
#include <string>
#include <utility>

namespace heed {

/// What kind of mistake an Error reports. The names cross to JavaScript as they are (`HeedError.code`).
enum class ErrorCode {
  kInvalidArgument,  ///< a value outside its legal range
  kShapeMismatch,    ///< shapes that do not fit each other
  kOutOfMemory,      ///< the engine refused to grow the memory, or a size exceeds what 32-bit memory can hold
  kInvalidFile,      ///< bytes from outside that are not what they claim to be
  kUnsupported,      ///< legal, but not something heed implements
};

/// "INVALID_ARGUMENT", "SHAPE_MISMATCH", ...
const char* errorCodeName(ErrorCode code);

/// A number for a message, to six decimals. (std::to_string of a float would bring all of printf into the module.)
std::string numberText(double value);

/// The one exception type of the core. The message reads `argument: got X; expected Y`.
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
