#ifndef HOLDFAST_SERVER_RESPONSES_FORMATTER_H_
#define HOLDFAST_SERVER_RESPONSES_FORMATTER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "server/generation_response.h"
#include "server/responses_request.h"

namespace holdfast {

// What a reply of /v1/responses is made with, besides what was generated.
struct ResponsesReplyHead {
  std::string id, model_id;
  int64_t created_s = 0;
  Json echo;  // fields of the request that the response repeats
  std::map<std::string, ResponsesTool, std::less<>> tools;
  bool with_encrypted_reasoning = false;
  bool reasoning_as_summary = false;
  // Told of the finished response before the client is. May be null.
  std::function<void(const Json& response)> on_response;
};

// Streaming: response.created, response.in_progress (again in silence), items with their deltas,
// response.completed, .incomplete or .failed. Otherwise one response object.
std::unique_ptr<ReplyFormatter> MakeResponsesFormatter(ResponsesReplyHead head, bool stream);

// A whole stream that says that the request failed before anything was generated.
std::string FailedResponsesStream(ResponsesReplyHead head, const ApiError& error);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_RESPONSES_FORMATTER_H_
