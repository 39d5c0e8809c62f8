#include "heed/error.h"

namespace heed {

const char* errorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case ErrorCode::kShapeMismatch:
      return "SHAPE_MISMATCH";
    case ErrorCode::kOutOfMemory:
      return "OUT_OF_MEMORY";
    case ErrorCode::kInvalidFile:
      return "INVALID_FILE";
    case ErrorCode::kUnsupported:
      return "UNSUPPORTED";
  }
  return "INTERNAL";
}

}  // namespace heed
