#include "server/api_error.h"

#include "server/json.h"

namespace holdfast {
namespace {

// OpenAI's `type` for an HTTP status.
std::string_view ErrorType(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "unavailable_error";
    default:
      return http_status >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string_view AnthropicErrorType(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 504:
      return "timeout_error";
    case 529:
      return "overloaded_error";
    default:
      return http_status >= 500 ? "api_error" : "invalid_request_error";
  }
}

int AnthropicHttpStatus(const ApiError& error) {
  const int status = HttpStatusOf(error);
  return status == 503 ? 529 : status;
}

void AddRetryAfter(const ApiError& error, HttpResponse* response) {
  if (error.retry_after_s > 0) {
    response->headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
  }
}

}  // namespace

int HttpStatusOf(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return 200;
    case StatusCode::kInvalidArgument:
      return 400;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kAlreadyExists:
      return 409;
    case StatusCode::kFailedPrecondition:
      return 409;
    case StatusCode::kOutOfRange:
      return 400;
    case StatusCode::kResourceExhausted:
      return 503;
    case StatusCode::kUnimplemented:
      return 400;
    case StatusCode::kDataLoss:
      return 500;
    case StatusCode::kUnavailable:
      return 503;
    case StatusCode::kDeadlineExceeded:
      return 504;
    case StatusCode::kCancelled:
      return 499;
    case StatusCode::kPermissionDenied:
      return 403;
    case StatusCode::kInternal:
      return 500;
  }
  return 500;
}

int HttpStatusOf(const ApiError& error) {
  return error.http_status != 0 ? error.http_status : HttpStatusOf(error.status.code());
}

std::string_view HttpReason(int http_status) {
  switch (http_status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Payload Too Large";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 529:
      return "Overloaded";
    default:
      return "Unknown";
  }
}

std::string OpenAiErrorBody(const ApiError& error) {
  Json body;
  Json& inner = body["error"];
  inner["message"] = error.status.message();
  inner["type"] = ErrorType(HttpStatusOf(error));
  inner["param"] = error.param.empty() ? Json() : Json(error.param);
  inner["code"] = error.code.empty() ? Json() : Json(error.code);
  return ToText(body);
}

HttpResponse OpenAiErrorResponse(const ApiError& error) {
  HttpResponse response;
  response.status = HttpStatusOf(error);
  response.body = OpenAiErrorBody(error);
  AddRetryAfter(error, &response);
  return response;
}

std::string AnthropicErrorBody(const ApiError& error, std::string_view request_id) {
  Json body;
  body["type"] = "error";
  body["error"]["type"] = AnthropicErrorType(AnthropicHttpStatus(error));
  body["error"]["message"] = error.status.message();
  body["request_id"] = request_id;
  return ToText(body);
}

HttpResponse AnthropicErrorResponse(const ApiError& error, std::string_view request_id) {
  HttpResponse response;
  response.status = AnthropicHttpStatus(error);
  response.body = AnthropicErrorBody(error, request_id);
  AddRetryAfter(error, &response);
  return response;
}

HttpResponse ErrorResponseFor(const HttpRequest& request, const ApiError& error) {
  const bool anthropic =
      request.path == "/v1/messages" || request.path.starts_with("/v1/messages/");
  return anthropic ? AnthropicErrorResponse(error, request.id) : OpenAiErrorResponse(error);
}

}  // namespace holdfast
