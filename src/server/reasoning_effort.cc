#include "server/reasoning_effort.h"

#include <string>

namespace holdfast {

bool ApplyReasoningEffort(std::string_view effort, ChatTemplate::Input* input,
                          ThinkingBudget* budget) {
  struct Word {
    std::string_view word, meaning;
    int64_t tokens;
  };
  static constexpr Word kWords[] = {
      {"none", "", 0},
      {"off", "", 0},
      {"minimal", "low", 512},
      {"low", "low", 2048},
      {"medium", "medium", 8192},
      {"high", "xhigh", -1},
      {"xhigh", "xhigh", -1},
      {"max", "xhigh", -1},
  };
  for (const auto& [word, meaning, tokens] : kWords) {
    if (effort != word) continue;
    input->enable_thinking = !meaning.empty();
    input->reasoning_effort.reset();
    if (!meaning.empty()) input->reasoning_effort = std::string(meaning);
    if (budget != nullptr) budget->tokens = tokens;
    return true;
  }
  return false;
}

}  // namespace holdfast
