#ifndef HOLDFAST_SERVER_WEB_PAGE_H_
#define HOLDFAST_SERVER_WEB_PAGE_H_

// The page for people (web/), as it was when the program was built.

#include <optional>
#include <span>
#include <string_view>

#include "server/http_message.h"

namespace holdfast {

struct WebFile {
  std::string_view name;  // below web/: "chat/composer.js"
  std::string_view bytes;
};
// All of them, by name. Made by cmake/embed_web.cmake.
std::span<const WebFile> WebFiles();

// Whether a path is part of the page. It is the same for everybody and holds nothing of a user, so
// no key is needed for it; what it shows comes through the API, with a key where one is needed.
bool IsWebPagePath(std::string_view path);

// The response to a request for the page: "/" is index.html, "/ui/NAME" the other files. None for
// other paths.
std::optional<HttpResponse> WebPage(const HttpRequest& request);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_WEB_PAGE_H_
