#ifndef HOLDFAST_ENGINE_REUSE_H_
#define HOLDFAST_ENGINE_REUSE_H_

#include "engine/generator.h"
#include "state/state_cache.h"
#include "token/tokenizer.h"

namespace holdfast {

// What a request is told about its read: a match in words.
ReuseInfo ExplainMatch(const PrefixMatch& match, int64_t n_prompt, const Tokenizer& tokenizer);

// "new", "extends", "differs", "whole_prompt", "no_checkpoint", "being_read", "too_short",
// "prompt_logprobs"
std::string_view ReuseLimitName(MatchLimit limit);
std::string_view ReuseSourceName(ReuseSource source);  // "live", "ram", "disk", "borrowed", "none"

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_REUSE_H_
