// The smallest program that holds a conversation: two turns, the second of which reads only what is
// new. usage: hello MODEL.gguf
#include <holdfast/holdfast.h>

#include <cstdio>
#include <future>

namespace {

// Asks, prints the reply as it comes, and returns it.
std::string Ask(holdfast::api::Engine* engine, const holdfast::api::Request& request) {
  std::string reply, error;
  std::promise<holdfast::api::Outcome> done;
  const holdfast::api::RequestId id = engine->Submit(
      request,
      {.on_text =
           [&](std::string_view text) {
             reply += text;
             std::fwrite(text.data(), 1, text.size(), stdout);
             return true;
           },
       .on_done = [&](const holdfast::api::Outcome& outcome) { done.set_value(outcome); }},
      &error);
  if (id == 0) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return "";
  }
  const holdfast::api::Outcome outcome = done.get_future().get();
  std::printf("\n[%lld of %lld prompt tokens were there already]\n",
              static_cast<long long>(outcome.reused_tokens),
              static_cast<long long>(outcome.prompt_tokens));
  return reply;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: hello MODEL.gguf\n");
    return 2;
  }
  std::string error;
  const auto engine = holdfast::api::Engine::Load({.model_path = argv[1]}, &error);
  if (engine == nullptr) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return 1;
  }
  holdfast::api::Request request{.messages = {{"user", "My name is Marta and I live in Porto."}},
                                 .thinking = false,
                                 .max_tokens = 64};
  const std::string reply = Ask(engine.get(), request);
  if (reply.empty()) return 1;
  request.messages.push_back({"assistant", reply});
  request.messages.push_back({"user", "What is my name?"});
  return Ask(engine.get(), request).empty() ? 1 : 0;
}
