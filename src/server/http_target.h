#ifndef HOLDFAST_SERVER_HTTP_TARGET_H_
#define HOLDFAST_SERVER_HTTP_TARGET_H_

#include <string>
#include <string_view>

#include "server/http_message.h"

namespace holdfast {

// Sets path (percent-decoded) and query of a request from its target: "/path?query" or
// "http://host/path?query". A malformed escape stays as it is.
void SplitTarget(std::string_view target, HttpRequest* request);

// A text of the client for a log line: printable ASCII, the rest escaped, cut at 200 bytes.
std::string LogText(std::string_view text);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_HTTP_TARGET_H_
