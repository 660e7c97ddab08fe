#ifndef HOLDFAST_TOKEN_CHAT_TEMPLATE_H_
#define HOLDFAST_TOKEN_CHAT_TEMPLATE_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "token/marked_text.h"

namespace holdfast {

// Turns messages into a prompt with the Jinja template of a model file, as transformers'
// apply_chat_template does. What came from the messages and tools is marked in the result, through
// every filter, slice and concatenation of the template, so that no request can spell a control
// token.
//
// Threads: Render may be called from many threads at once.
class ChatTemplate {
 public:
  // Texts that templates may ask for by name.
  struct SpecialTexts {
    std::string bos_token;
    std::string eos_token;
  };

  struct Input {
    // OpenAI's message objects: role, content (string, null or parts), reasoning_content,
    // tool_calls (arguments as an object or as a string holding one), tool_call_id, name.
    nlohmann::ordered_json messages = nlohmann::ordered_json::array();
    nlohmann::ordered_json tools;         // an array; null or empty: no tools
    std::optional<bool> enable_thinking;  // not set: undefined in the template
    std::optional<std::string> reasoning_effort;
    bool add_generation_prompt = true;
    nlohmann::ordered_json extra;  // further variables, an object or null
    std::optional<int64_t> now_s;  // strftime_now's clock; not set: the present
  };

  // A prompt and what is known about its parts.
  struct Rendered {
    MarkedText prompt;
    // Where the generation prompt begins; not set when the template does not simply append it.
    std::optional<int64_t> generation_prompt_begin;
    // Per message, from the first to the last byte that came from it; empty if none did.
    std::vector<Span> message_spans;
  };

  // An empty `source` gives the built-in ChatML template (thinking, tools and tool results in the
  // way of the Qwen family). kInvalidArgument with the line when the template cannot be parsed.
  static Result<ChatTemplate> Create(std::string source, SpecialTexts texts);
  static Result<ChatTemplate> Create(std::string source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // kInvalidArgument: the messages have the wrong shape or the template raised an exception;
  // kResourceExhausted: the template ran past its limits.
  Result<MarkedText> Render(const Input& input) const;
  // Renders a second time without generation prompt to find where it begins.
  Result<Rendered> RenderWithSpans(const Input& input) const;

  // The template's text.
  const std::string& source() const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast

#endif  // HOLDFAST_TOKEN_CHAT_TEMPLATE_H_
