#ifndef HOLDFAST_SERVER_STATUS_API_H_
#define HOLDFAST_SERVER_STATUS_API_H_

#include "server/http_message.h"
#include "server/state_api.h"

namespace holdfast {

// GET /v1/status: everything the page's Monitor and About show, in one object. Fields:
// docs/http_api.md. What is not known is null, never what was known before.
// `after=N` in the query leaves out the finished requests up to number N.
HttpReply HandleStatus(const ServicePtr& model, const HttpRequest& request);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_STATUS_API_H_
