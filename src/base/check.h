#ifndef HOLDFAST_BASE_CHECK_H_
#define HOLDFAST_BASE_CHECK_H_

// For our own mistakes only: no file, request or flag may reach one.
#define HF_CHECK(condition)                                    \
  do {                                                         \
    if (!(condition)) [[unlikely]] {                           \
      ::holdfast::CheckFailed(#condition, __FILE__, __LINE__); \
    }                                                          \
  } while (false)

#ifdef NDEBUG
#define HF_DCHECK(condition) \
  do {                       \
    (void)sizeof(condition); \
  } while (false)
#else
#define HF_DCHECK(condition) HF_CHECK(condition)
#endif

namespace holdfast {

// Prints the condition and place, then aborts.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace holdfast

#endif  // HOLDFAST_BASE_CHECK_H_
