#ifndef HOLDFAST_SERVER_RESPONSES_REQUEST_H_
#define HOLDFAST_SERVER_RESPONSES_REQUEST_H_

#include <map>
#include <string>
#include <string_view>

#include "server/api_error.h"
#include "server/chat_request.h"
#include "server/json.h"

namespace holdfast {

// How the client calls a tool that the prompt knows by another name or in another shape.
struct ResponsesTool {
  std::string name;
  std::string name_space;  // of a tool inside a namespace; empty: none
  bool custom = false;     // its argument is a text, not a JSON object
};

// The body of POST /v1/responses.
struct ResponsesRequest {
  ChatRequest chat;
  bool stream = false;
  bool store = true;
  bool single_tool_call = false;
  bool with_encrypted_reasoning = false;  // include: reasoning.encrypted_content
  bool reasoning_as_summary = false;      // reasoning.summary was asked for
  std::string previous_response_id;
  std::map<std::string, ResponsesTool, std::less<>> tools;  // by their name in the prompt
  Json echo;          // the request's fields that a response repeats
  Json conversation;  // the messages without instructions, when the response will be kept
};

// What an earlier response left behind.
struct ResponsesHistory {
  Json messages;  // of the conversation before its reply, in OpenAI's chat shape
  Json output;    // its items
};

// `earlier`: of previous_response_id; null: none. Items become chat messages; reasoning items give
// back the thinking they were made of. Tools that would run on OpenAI's servers are left out.
ApiError ParseResponsesRequest(const ModelService& model, const Json& body,
                               const ResponsesHistory* earlier, ResponsesRequest* request);

// Thinking as a reasoning item's encrypted_content, and back; empty for text that is not ours.
std::string SealReasoning(std::string_view thinking);
std::string UnsealReasoning(std::string_view sealed);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_RESPONSES_REQUEST_H_
