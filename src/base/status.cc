#include "base/status.h"

#include <cerrno>
#include <cstring>

namespace holdfast {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kNotFound:
      return "not found";
    case StatusCode::kAlreadyExists:
      return "already exists";
    case StatusCode::kFailedPrecondition:
      return "failed precondition";
    case StatusCode::kOutOfRange:
      return "out of range";
    case StatusCode::kResourceExhausted:
      return "resource exhausted";
    case StatusCode::kUnimplemented:
      return "not supported";
    case StatusCode::kDataLoss:
      return "data loss";
    case StatusCode::kUnavailable:
      return "unavailable";
    case StatusCode::kDeadlineExceeded:
      return "deadline exceeded";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kPermissionDenied:
      return "permission denied";
    case StatusCode::kInternal:
      return "internal";
  }
  return "unknown";
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  return std::string(StatusCodeName(code_)) + ": " + message_;
}

#define HF_DEFINE_ERROR_(name)                              \
  Status name##Error(std::string message) {                 \
    return Status(StatusCode::k##name, std::move(message)); \
  }
HF_DEFINE_ERROR_(InvalidArgument)
HF_DEFINE_ERROR_(NotFound)
HF_DEFINE_ERROR_(AlreadyExists)
HF_DEFINE_ERROR_(FailedPrecondition)
HF_DEFINE_ERROR_(OutOfRange)
HF_DEFINE_ERROR_(ResourceExhausted)
HF_DEFINE_ERROR_(Unimplemented)
HF_DEFINE_ERROR_(DataLoss)
HF_DEFINE_ERROR_(Unavailable)
HF_DEFINE_ERROR_(DeadlineExceeded)
HF_DEFINE_ERROR_(Cancelled)
HF_DEFINE_ERROR_(PermissionDenied)
HF_DEFINE_ERROR_(Internal)
#undef HF_DEFINE_ERROR_

Status ErrnoError(int error_number, std::string_view what) {
  StatusCode code = StatusCode::kInternal;
  switch (error_number) {
    case ENOENT:
      code = StatusCode::kNotFound;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      code = StatusCode::kPermissionDenied;
      break;
    case EEXIST:
      code = StatusCode::kAlreadyExists;
      break;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      code = StatusCode::kResourceExhausted;
      break;
    default:
      break;
  }
  return Status(code, std::string(what) + ": " + std::strerror(error_number));
}

}  // namespace holdfast
