#include "server/web_page.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/hash128.h"

namespace holdfast {
namespace {

constexpr std::string_view kPrefix = "/ui/";

// Scripts and styles from here only, nothing inline, nothing from anywhere else, in nobody's frame.
constexpr char kContentSecurityPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const WebFile* FileAt(std::string_view path) {
  std::string_view name;
  if (path == "/") {
    name = "index.html";
  } else if (path.starts_with(kPrefix)) {
    name = path.substr(kPrefix.size());
  } else {
    return nullptr;
  }
  const std::span<const WebFile> files = WebFiles();
  const auto file = std::ranges::find(files, name, &WebFile::name);
  return file == files.end() ? nullptr : &*file;
}

std::string ContentType(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, const char*>, 4> kTypes = {{
      {".html", "text/html; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".svg", "image/svg+xml"},
  }};
  for (const auto& [suffix, type] : kTypes) {
    if (name.ends_with(suffix)) return type;
  }
  return "application/octet-stream";
}

std::string EtagOf(const WebFile& file) {
  return '"' + Hash128Of(std::as_bytes(std::span(file.bytes))).Hex() + '"';
}

// RFC 9110, 13.1.2: "*", or a list of tags, compared weakly.
bool Matches(std::string_view if_none_match, std::string_view etag) {
  return if_none_match == "*" || if_none_match.find(etag) != std::string_view::npos;
}

}  // namespace

bool IsWebPagePath(std::string_view path) { return FileAt(path) != nullptr; }

std::optional<HttpResponse> WebPage(const HttpRequest& request) {
  const WebFile* file = FileAt(request.path);
  if (file == nullptr) return std::nullopt;
  if (request.method != "GET" && request.method != "HEAD") return std::nullopt;
  HttpResponse response;
  response.content_type = ContentType(file->name);
  const std::string etag = EtagOf(*file);
  response.headers = {
      // Asked for again each time, so that a new version is never mixed with an old one.
      {"Cache-Control", "no-cache"},
      {"ETag", etag},
      {"Content-Security-Policy", kContentSecurityPolicy},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
  };
  if (Matches(request.header("if-none-match"), etag)) {
    response.status = 304;
  } else {
    response.body = std::string(file->bytes);
  }
  return response;
}

}  // namespace holdfast
