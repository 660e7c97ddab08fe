#ifndef HOLDFAST_TESTS_SUPPORT_SLOW_BUILD_H_
#define HOLDFAST_TESTS_SUPPORT_SLOW_BUILD_H_

#include <cstdlib>

namespace holdfast {

// Unoptimised and sanitised builds compute 20 to 50 times slower: there, tests that only repeat the
// same code on more input take less of it.
#if !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSlowBuild = true;
#else
inline constexpr bool kSlowBuild = false;
#endif

// HOLDFAST_CHECK_ALL=1 (`make check-all`) asks for the long forms too.
inline bool CheckAll() {
  const char* value = std::getenv("HOLDFAST_CHECK_ALL");
  return value != nullptr && value[0] == '1';
}

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_SUPPORT_SLOW_BUILD_H_
