#ifndef HOLDFAST_SERVER_CORS_POLICY_H_
#define HOLDFAST_SERVER_CORS_POLICY_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/http_message.h"

namespace holdfast {

// Which web pages of other origins may read answers. None, unless they are named; cookies and the
// like never.
class CorsPolicy {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  // kInvalidArgument naming an origin that is not exactly "scheme://host" or "scheme://host:port".
  static Status Validate(const std::vector<std::string>& origins);
  explicit CorsPolicy(std::vector<std::string> origins) : origins_(std::move(origins)) {}

  bool Allows(std::string_view origin) const;
  // Whether this is a browser's question before the real request. It carries no key.
  bool IsPreflight(const HttpRequest& head) const;
  // The answer to it: 204 with what is allowed.
  HttpResponse Preflight(const HttpRequest& request) const;
  // Headers of every answer to `request`; none without an allowed origin.
  Headers ResponseHeaders(const HttpRequest& request) const;

 private:
  std::vector<std::string> origins_;
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_CORS_POLICY_H_
