#ifndef HOLDFAST_SERVER_API_H_
#define HOLDFAST_SERVER_API_H_

#include <functional>
#include <memory>

#include "base/status.h"
#include "server/http_message.h"
#include "server/model_service.h"

namespace holdfast {

// All routes of the server, by method and path. Answers 404 and 405 for others, 503 with progress
// while the model is loading. `state` outlives the handler.
HttpHandler MakeApi(ModelState* state);
// Where the body of a request to them goes (HttpServerOptions::open_body).
std::function<Result<std::shared_ptr<BodySink>>(const HttpRequest& head)> MakeBodyOpener(
    ModelState* state);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_API_H_
