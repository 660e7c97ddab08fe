#include "server/reasoning_effort.h"

#include <string>
#include <utility>

namespace holdfast {

bool ApplyReasoningEffort(std::string_view effort, ChatTemplate::Input* input) {
  static constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"none", ""},         {"off", ""},       {"minimal", "low"}, {"low", "low"},
      {"medium", "medium"}, {"high", "xhigh"}, {"xhigh", "xhigh"}, {"max", "xhigh"},
  };
  for (const auto& [word, meaning] : kWords) {
    if (effort != word) continue;
    input->enable_thinking = !meaning.empty();
    input->reasoning_effort.reset();
    if (!meaning.empty()) input->reasoning_effort = std::string(meaning);
    return true;
  }
  return false;
}

}  // namespace holdfast
