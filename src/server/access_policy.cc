#include "server/access_policy.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <utility>

#include "server/web_page.h"

namespace holdfast {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

Digest DigestOf(std::string_view text) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

// "[::1]:8080" and "localhost:8080" without the port and brackets.
std::string_view HostOf(std::string_view host) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    return end == std::string_view::npos ? host : host.substr(1, end - 1);
  }
  return host.substr(0, host.find(':'));
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

bool IsIpv4Loopback(std::string_view host) {
  if (!host.starts_with("127.")) return false;
  int n_dots = 0;
  for (const char c : host) {
    if (c == '.') {
      ++n_dots;
    } else if (c < '0' || c > '9') {
      return false;  // "127.0.0.1.example.com"
    }
  }
  return n_dots == 3;
}

}  // namespace

bool IsLoopbackHost(std::string_view host) {
  const std::string name = Lower(host);
  return name == "localhost" || name.ends_with(".localhost") || name == "::1" ||
         IsIpv4Loopback(name);
}

Status AccessPolicy::Validate(const Options& options) {
  for (const std::string& key : options.api_keys) {
    if (key.empty()) return InvalidArgumentError("an API key is empty");
  }
  if (IsLoopbackHost(options.host) || options.insecure || !options.api_keys.empty()) {
    return OkStatus();
  }
  return PermissionDeniedError(fmt::format(
      "--host {} can be reached by other machines: set --api-key (or HOLDFAST_API_KEY), "
      "or --insecure to let anybody in",
      options.host));
}

AccessPolicy::AccessPolicy(Options options)
    : options_(std::move(options)), loopback_(IsLoopbackHost(options_.host)) {}

bool AccessPolicy::HasKey(const HttpRequest& head) const {
  std::string_view given = head.header("x-api-key");
  const std::string_view authorization = head.header("authorization");
  if (authorization.size() > 7 && Lower(authorization.substr(0, 7)) == "bearer ") {
    given = authorization.substr(7);
  }
  // Digests have one length, so neither length nor content of a key shows in the time.
  const Digest digest = DigestOf(given);
  bool found = false;
  for (const std::string& key : options_.api_keys) {
    found |= CRYPTO_memcmp(digest.data(), DigestOf(key).data(), digest.size()) == 0;
  }
  return found;
}

std::optional<ApiError> AccessPolicy::Check(const HttpRequest& head) const {
  if (!options_.api_keys.empty()) {
    if (head.path == "/health" && head.method == "GET") return std::nullopt;
    if (IsWebPagePath(head.path)) return std::nullopt;
    if (HasKey(head)) return std::nullopt;
    return ApiError{.status = PermissionDeniedError(
                        "a valid API key is needed: Authorization: Bearer KEY, or x-api-key: KEY"),
                    .code = "invalid_api_key",
                    .http_status = 401};
  }
  if (!loopback_) return std::nullopt;
  const std::string_view host = head.header("host");
  if (!host.empty() && !IsLoopbackHost(HostOf(host))) {
    return ApiError{.status = PermissionDeniedError(
                        fmt::format("the Host header does not name this machine; use http://{} or "
                                    "start the server with --api-key",
                                    options_.host)),
                    .param = "Host"};
  }
  const std::string_view origin = head.header("origin");
  if (!origin.empty()) {
    const size_t scheme_end = origin.find("://");
    const bool named =
        std::ranges::find(options_.cors_origins, origin) != options_.cors_origins.end();
    const bool same_machine = scheme_end != std::string_view::npos &&
                              IsLoopbackHost(HostOf(origin.substr(scheme_end + 3)));
    if (!same_machine && !named) {
      return ApiError{
          .status = PermissionDeniedError("requests of web pages from other hosts are not allowed"),
          .param = "Origin"};
    }
  }
  return std::nullopt;
}

}  // namespace holdfast
