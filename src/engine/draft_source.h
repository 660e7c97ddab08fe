#ifndef HOLDFAST_ENGINE_DRAFT_SOURCE_H_
#define HOLDFAST_ENGINE_DRAFT_SOURCE_H_

#include <string_view>

#include "base/status.h"

namespace holdfast {

// Where guesses come from. Whatever it is, a guess counts only where the model says the same.
enum class DraftSource {
  kAuto,    // the draft head where the model has one, else the conversation
  kMtp,     // the draft head
  kLookup,  // what followed the last few tokens earlier in the conversation
};

// auto, mtp or lookup; kInvalidArgument otherwise.
Result<DraftSource> ParseDraftSource(std::string_view name);

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_DRAFT_SOURCE_H_
