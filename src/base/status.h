#ifndef HOLDFAST_BASE_STATUS_H_
#define HOLDFAST_BASE_STATUS_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace holdfast {

// What kind of thing went wrong. One table in server/ maps codes to HTTP statuses.
enum class StatusCode {
  kOk,
  kInvalidArgument,     // the caller's input is wrong and stays wrong
  kNotFound,            // a named file, conversation or route does not exist
  kAlreadyExists,       // a name that must be new is taken
  kFailedPrecondition,  // right in itself, not possible in the present state
  kOutOfRange,          // a number outside its stated range (context overflow, limits)
  kResourceExhausted,   // memory, disk, slots or queue
  kUnimplemented,       // a known feature that is not supported
  kDataLoss,            // a file is truncated, corrupt or not what it says it is
  kUnavailable,         // try again later
  kDeadlineExceeded,    // a bound on time was hit
  kCancelled,           // the caller asked for it
  kPermissionDenied,    // the system or the configuration forbids it
  kInternal,            // our own mistake, or a computation that gave non-finite numbers
};

std::string_view StatusCodeName(StatusCode code);

// The outcome of something that can fail: OK, or a code and a message that names the thing, the
// value found and the value wanted.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {
    HF_DCHECK(code != StatusCode::kOk);
  }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  // "data loss: model.gguf: ..." or "ok".
  std::string ToString() const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status OkStatus() { return Status(); }
Status InvalidArgumentError(std::string message);
Status NotFoundError(std::string message);
Status AlreadyExistsError(std::string message);
Status FailedPreconditionError(std::string message);
Status OutOfRangeError(std::string message);
Status ResourceExhaustedError(std::string message);
Status UnimplementedError(std::string message);
Status DataLossError(std::string message);
Status UnavailableError(std::string message);
Status DeadlineExceededError(std::string message);
Status CancelledError(std::string message);
Status PermissionDeniedError(std::string message);
Status InternalError(std::string message);
// kNotFound, kPermissionDenied, kResourceExhausted (ENOSPC, EMFILE, ENOMEM) or kInternal by errno;
// the message is `what` followed by the system's own text.
Status ErrnoError(int error_number, std::string_view what);

// A T, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit on purpose
    HF_CHECK(!status_.ok());
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  T& value() & {
    HF_CHECK(ok());
    return *value_;
  }
  const T& value() const& {
    HF_CHECK(ok());
    return *value_;
  }
  T&& value() && {
    HF_CHECK(ok());
    return *std::move(value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace holdfast

#define HF_CONCAT_INNER_(a, b) a##b
#define HF_CONCAT_(a, b) HF_CONCAT_INNER_(a, b)

// Returns from the enclosing function when `expr` is a Status that is not OK.
#define HF_RETURN_IF_ERROR(expr)             \
  do {                                       \
    ::holdfast::Status hf_status_ = (expr);  \
    if (!hf_status_.ok()) return hf_status_; \
  } while (false)

// HF_ASSIGN_OR_RETURN(auto x, MakeX());
#define HF_ASSIGN_OR_RETURN(lhs, expr) \
  HF_ASSIGN_OR_RETURN_IMPL_(HF_CONCAT_(hf_result_, __LINE__), lhs, expr)
#define HF_ASSIGN_OR_RETURN_IMPL_(result, lhs, expr) \
  auto result = (expr);                              \
  if (!result.ok()) return result.status();          \
  lhs = std::move(result).value()

#endif  // HOLDFAST_BASE_STATUS_H_
