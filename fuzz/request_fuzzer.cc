// Any bytes as the body of any route that reads JSON: it is answered or refused with a 4xx, and a
// prompt that is taken consists of tokens that exist.
#include <cstdint>
#include <memory>
#include <string>

#include "base/check.h"
#include "server/api.h"
#include "server/billing_line.h"
#include "server/fake_generator.h"
#include "server/json.h"
#include "server/reply_memory.h"

namespace {

using namespace holdfast;  // NOLINT: a fuzzer is one file

constexpr const char* kPaths[] = {"/v1/chat/completions",
                                  "/v1/messages",
                                  "/v1/responses",
                                  "/v1/completions",
                                  "/v1/messages/count_tokens",
                                  "/v1/responses/input_tokens",
                                  "/tokenize",
                                  "/detokenize",
                                  "/apply-template"};

// Takes every prompt and answers none.
class RefusingGenerator : public Generator {
 public:
  explicit RefusingGenerator(int64_t vocab_size) : vocab_size_(vocab_size) {}
  Result<RequestId> Submit(GenerateRequest request, std::shared_ptr<RequestSink>) override {
    HF_CHECK(!request.prompt.empty());
    for (const TokenId id : request.prompt) HF_CHECK(id >= 0);
    HF_CHECK(request.sampling.Validate(vocab_size_).ok());
    HF_CHECK(request.max_tokens >= -1);
    for (const CheckpointMark& mark : request.checkpoints) {
      HF_CHECK(mark.position > 0 && mark.position <= static_cast<int64_t>(request.prompt.size()));
    }
    return UnavailableError("a fuzzer has no model");
  }
  void Cancel(RequestId) override {}
  int64_t context_length() const override { return 1 << 20; }
  int64_t vocab_size() const override { return vocab_size_; }

 private:
  const int64_t vocab_size_;
};

struct Server {
  Server() : generator(DemoVocabulary::Get().tokenizer->vocab_size()) {
    auto service = std::make_shared<ModelService>();
    service->generator = &generator;
    service->tokenizer = DemoVocabulary::Get().tokenizer.get();
    service->chat_template = DemoVocabulary::Get().chat_template.get();
    service->model_id = "m";
    service->replies = std::make_shared<ReplyMemory>();
    state.Set(service);
    handler = MakeApi(&state);
  }

  RefusingGenerator generator;
  ModelState state;
  HttpHandler handler;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Server* const server = new Server;
  if (size == 0 || size > (64 << 10)) return 0;
  HttpRequest request;
  request.method = "POST";
  request.path = kPaths[data[0] % std::size(kPaths)];
  request.body.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  const HttpReply reply = server->handler(request);
  HF_CHECK(reply.source == nullptr);
  const int status = reply.response.status;
  HF_CHECK(status == 200 || (status >= 400 && status < 500) || status == 503 || status == 529);
  HF_CHECK(ParseJson(reply.response.body).ok() ||
           reply.response.content_type.starts_with("text/event-stream"));
  std::string text = request.body;
  const std::string before = text;
  HF_CHECK(PinBillingLine(&text) == (text != before));
  return 0;
}
