#include "server/cors_policy.h"

#include <fmt/format.h>

#include <algorithm>

namespace holdfast {
namespace {

constexpr size_t kMaxHeaderList = 4096;

// Names of headers and commas, nothing that could end the header they are repeated in.
bool IsHeaderList(std::string_view text) {
  return text.size() <= kMaxHeaderList && std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == ',' || c == ' ';
         });
}

bool IsOrigin(std::string_view origin) {
  const size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos || scheme == 0) return false;
  const std::string_view host = origin.substr(scheme + 3);
  return !host.empty() && host.find_first_of("/?#*@ ") == std::string_view::npos;
}

}  // namespace

Status CorsPolicy::Validate(const std::vector<std::string>& origins) {
  for (const std::string& origin : origins) {
    if (IsOrigin(origin)) continue;
    return InvalidArgumentError(
        fmt::format("--cors-origin {} is not an origin: it must be like https://chat.example or "
                    "http://localhost:3000, without a path and without *",
                    origin));
  }
  return OkStatus();
}

bool CorsPolicy::Allows(std::string_view origin) const {
  return std::ranges::find(origins_, origin) != origins_.end();
}

bool CorsPolicy::IsPreflight(const HttpRequest& head) const {
  return head.method == "OPTIONS" && !head.header("access-control-request-method").empty() &&
         Allows(head.header("origin"));
}

HttpResponse CorsPolicy::Preflight(const HttpRequest& request) const {
  HttpResponse response;
  response.status = 204;
  response.headers = {{"Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"},
                      {"Access-Control-Max-Age", "600"}};
  const std::string_view wanted = request.header("access-control-request-headers");
  if (!wanted.empty() && IsHeaderList(wanted)) {
    response.headers.emplace_back("Access-Control-Allow-Headers", wanted);
  }
  if (request.header("access-control-request-private-network") == "true") {
    response.headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  }
  return response;
}

CorsPolicy::Headers CorsPolicy::ResponseHeaders(const HttpRequest& request) const {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || !Allows(origin)) return {};
  return {
      {"Access-Control-Allow-Origin", std::string(origin)},
      {"Access-Control-Expose-Headers", "X-Request-Id, request-id, X-Holdfast-Reuse, Retry-After"},
      {"Vary", "Origin"}};
}

}  // namespace holdfast
