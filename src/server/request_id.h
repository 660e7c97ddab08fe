#ifndef HOLDFAST_SERVER_REQUEST_ID_H_
#define HOLDFAST_SERVER_REQUEST_ID_H_

#include <string>
#include <string_view>

namespace holdfast {

// `prefix` and 24 random letters and digits. Not a secret.
std::string MakeId(std::string_view prefix);

// "req-" and so on: one for each HTTP request, in logs and in X-Request-Id.
inline std::string MakeRequestId() { return MakeId("req-"); }

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_REQUEST_ID_H_
