// render: reads a JSON array of {template, bos_token, eos_token, messages, tools, ...} from
// standard input and prints an array with each rendering, {"text": ...} or {"error": ...}. The
// driver of compare.mjs.
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "token/chat_template.h"

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;

Json RenderOne(const Json& request) {
  auto chat = ChatTemplate::Create(
      request["template"].get<std::string>(),
      {request["bos_token"].get<std::string>(), request["eos_token"].get<std::string>()});
  if (!chat.ok()) return {{"error", chat.status().ToString()}};
  ChatTemplate::Input input;
  input.messages = request["messages"];
  input.tools = request.value("tools", Json());
  input.extra = request.value("extra", Json());
  input.add_generation_prompt = request.value("add_generation_prompt", true);
  if (request.contains("enable_thinking")) input.enable_thinking = request["enable_thinking"];
  const auto prompt = chat->Render(input);
  if (!prompt.ok()) return {{"error", prompt.status().ToString()}};
  return {{"text", prompt->text}};
}

int Main() {
  const std::string text{std::istreambuf_iterator<char>(std::cin),
                         std::istreambuf_iterator<char>()};
  const Json requests = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!requests.is_array()) {
    std::cerr << "standard input is no JSON array\n";
    return 1;
  }
  Json results = Json::array();
  for (const Json& request : requests) results.push_back(RenderOne(request));
  std::cout << results.dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace holdfast

int main() { return holdfast::Main(); }
