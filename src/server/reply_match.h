#ifndef HOLDFAST_SERVER_REPLY_MATCH_H_
#define HOLDFAST_SERVER_REPLY_MATCH_H_

#include "server/json.h"

namespace holdfast {

// Whether an assistant message of a history is a reply that was given, as clients bring it back:
// line ends and space at the ends of lines differ, the thinking is left out or stands in front of
// the text, arguments are spelled with other spacing or in another order of keys, the text beside
// tool calls is missing, a text is encoded twice. An edited reply is not the same.
//
// `given`: a message of ReplyRecorder. `received`: in OpenAI's shape.
bool IsSameReply(const Json& given, const Json& received);

// `received` as it was given: its texts and arguments, under the ids of the client.
Json AsGiven(const Json& given, const Json& received);

// A string member, "" when it is not there; anything else as JSON text.
std::string TextOf(const Json& message, const char* member);
// The arguments of a call as a value: the object, or what its text stands for.
Json ArgumentsOf(const Json& call);
// The function of a tool call, with or without the wrapping.
const Json& FunctionOf(const Json& call);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_REPLY_MATCH_H_
