#ifndef HOLDFAST_SERVER_ACCESS_POLICY_H_
#define HOLDFAST_SERVER_ACCESS_POLICY_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "server/http_message.h"

namespace holdfast {

// Whether `host` (a name or address, without port) is this machine only.
bool IsLoopbackHost(std::string_view host);

// Who may use the server. Decided by the head of a request, before its body is read.
//
//   - With API keys every request but GET /health and the page's files must carry one, as
//   `Authorization: Bearer KEY` or
//     `x-api-key: KEY`. Keys are compared in time that does not depend on where they differ.
//   - Without a key on a loopback address, the Host header must name this machine and an Origin
//     header, if there is one, too, unless it is a named origin: otherwise a web page could reach
//     the server through the browser of this machine's user (DNS rebinding, cross-site requests).
class AccessPolicy {
 public:
  struct Options {
    std::string host = "127.0.0.1";         // the address that is bound
    std::vector<std::string> api_keys;      // empty: none needed
    bool insecure = false;                  // allow other addresses than loopback without a key
    std::vector<std::string> cors_origins;  // origins of web pages that are let in
  };

  // kPermissionDenied when the address is not loopback and there is neither a key nor `insecure`;
  // kInvalidArgument for an empty key.
  static Status Validate(const Options& options);
  explicit AccessPolicy(Options options);

  // What is wrong with a request's head, if anything.
  std::optional<ApiError> Check(const HttpRequest& head) const;

 private:
  bool HasKey(const HttpRequest& head) const;

  Options options_;
  bool loopback_;
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_ACCESS_POLICY_H_
