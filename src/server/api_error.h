#ifndef HOLDFAST_SERVER_API_ERROR_H_
#define HOLDFAST_SERVER_API_ERROR_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "server/http_message.h"

namespace holdfast {

// What a client is told went wrong: our status, and what the APIs' error shapes hold besides.
struct ApiError {
  Status status;
  std::string param;      // the field of the request, empty if none
  std::string code;       // a machine-readable word, empty: null
  int http_status = 0;    // 0: by the status code
  int retry_after_s = 0;  // 0: no Retry-After header
};

// The one table from status codes to HTTP statuses.
int HttpStatusOf(StatusCode code);
int HttpStatusOf(const ApiError& error);
// The reason phrase of an HTTP status this server uses.
std::string_view HttpReason(int http_status);

// {"error":{"message","type","param","code"}}, as OpenAI's API gives it. Errors that are ours
// (kInternal) keep their message: it names no address, path or secret by the rules of Status.
std::string OpenAiErrorBody(const ApiError& error);
HttpResponse OpenAiErrorResponse(const ApiError& error);

// {"type":"error","error":{"type","message"},"request_id"}, as Anthropic's API gives it; what is
// 503 elsewhere is 529 (overloaded_error) there.
std::string AnthropicErrorBody(const ApiError& error, std::string_view request_id);
HttpResponse AnthropicErrorResponse(const ApiError& error, std::string_view request_id);

// In the shape of the API that the request's path belongs to.
HttpResponse ErrorResponseFor(const HttpRequest& request, const ApiError& error);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_API_ERROR_H_
