#ifndef HOLDFAST_BASE_VERSION_H_
#define HOLDFAST_BASE_VERSION_H_

namespace holdfast {

inline constexpr char kVersion[] = "0.1.0";  // as in CMakeLists.txt

}  // namespace holdfast

#endif  // HOLDFAST_BASE_VERSION_H_
