#ifndef HOLDFAST_SERVER_RESPONSES_API_H_
#define HOLDFAST_SERVER_RESPONSES_API_H_

#include <memory>

#include "server/http_message.h"
#include "server/model_service.h"
#include "server/response_store.h"

namespace holdfast {

// OpenAI's responses API. Fields and what is refused: docs/http_api.md.
class ResponsesApi {
 public:
  using Service = std::shared_ptr<const ModelService>;

  // POST /v1/responses
  HttpReply Create(const Service& model, const HttpRequest& request);
  // POST /v1/responses/input_tokens: {"object", "input_tokens": n} of the prompt Create would read.
  HttpReply CountInput(const Service& model, const HttpRequest& request);
  // GET /v1/responses/ID, as far as it is still kept.
  HttpReply Get(const HttpRequest& request);
  // DELETE /v1/responses/ID
  HttpReply Delete(const HttpRequest& request);

 private:
  struct Parsed;
  // An error, or OK and everything of `parsed`.
  ApiError Parse(const ModelService& model, const HttpRequest& request, Parsed* parsed);

  const std::shared_ptr<ResponseStore> store_ = std::make_shared<ResponseStore>();
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_RESPONSES_API_H_
