#include "cli/thinking.h"

#include <fmt/format.h>

#include <optional>

#include "server/reasoning_effort.h"

namespace holdfast::cli {

Status SetThinking(const std::string& word, ChatTemplate::Input* input) {
  input->enable_thinking.reset();
  input->reasoning_effort.reset();
  if (word.empty()) return OkStatus();
  if (word == "on") {
    input->enable_thinking = true;
    return OkStatus();
  }
  if (ApplyReasoningEffort(word, input)) return OkStatus();
  return InvalidArgumentError(
      fmt::format("thinking \"{}\" is not known, must be on, {}", word, kReasoningEfforts));
}

}  // namespace holdfast::cli
