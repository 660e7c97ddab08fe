#include "engine/reuse.h"

#include <fmt/format.h>

#include <algorithm>

namespace holdfast {
namespace {

ReuseSource SourceOf(const PrefixMatch& match) {
  switch (match.source) {
    case MatchSource::kNone:
      return ReuseSource::kNone;
    case MatchSource::kLive:
      return ReuseSource::kLive;
    case MatchSource::kCheckpoint:
      return ReuseSource::kRam;
    case MatchSource::kBorrowed:
      return ReuseSource::kBorrowed;
    case MatchSource::kDisk:
      return ReuseSource::kDisk;
  }
  return ReuseSource::kNone;
}

// The token as a person can read it: quoted, on one line.
std::string Quote(const Tokenizer& tokenizer, TokenId id) {
  if (id < 0) return "nothing";
  std::string out = "\"";
  for (char c : tokenizer.Decode(std::span(&id, 1), /*include_control=*/true)) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '"' || c == '\\') {
      out += '\\', out += c;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string Why(const PrefixMatch& match, const Tokenizer& tokenizer) {
  switch (match.limit) {
    case MatchLimit::kNothingKept:
      return "nothing that is kept begins like this prompt";
    case MatchLimit::kExtends:
      return "everything that is kept of this prompt was used";
    case MatchLimit::kWholePrompt:
      return "the whole prompt is kept; its last token is always read";
    case MatchLimit::kDiffers:
      return fmt::format("differs from what is kept at token {}: {} there, {} in the prompt",
                         match.common, Quote(tokenizer, match.expected.id),
                         Quote(tokenizer, match.found.id));
    case MatchLimit::kNoCheckpoint:
      if (match.differs) {
        return fmt::format(
            "differs from what is kept at token {} ({} there, {} in the prompt), and the nearest "
            "state before it is at token {}",
            match.common, Quote(tokenizer, match.expected.id), Quote(tokenizer, match.found.id),
            match.position);
      }
      return fmt::format("{} tokens are kept, but the nearest state is at token {}", match.common,
                         match.position);
    case MatchLimit::kNotComputed:
      return fmt::format("another request is reading the same {} tokens right now", match.common);
    case MatchLimit::kTooShort:
      return "what is kept of it is shorter than --cache-min-tokens asks";
    case MatchLimit::kRowsWanted:
      return "logprobs of the prompt were asked for: they are not kept, so all of it is read";
  }
  return "";
}

}  // namespace

ReuseInfo ExplainMatch(const PrefixMatch& match, int64_t n_prompt, const Tokenizer& tokenizer) {
  ReuseInfo info{.source = SourceOf(match),
                 .tokens_reused = match.position,
                 .tokens_read = n_prompt - match.position,
                 .tokens_known = std::clamp(match.common, match.position, n_prompt)};
  if (match.differs) {
    info.first_difference = match.common;
    info.expected = match.expected.id;
    info.found = match.found.id;
  }
  info.reason = Why(match, tokenizer);
  info.limit = ReuseLimitName(match.limit);
  if (match.source != MatchSource::kNone) info.conversation = match.conversation;
  return info;
}

std::string_view ReuseLimitName(MatchLimit limit) {
  switch (limit) {
    case MatchLimit::kNothingKept:
      return "new";
    case MatchLimit::kExtends:
      return "extends";
    case MatchLimit::kDiffers:
      return "differs";
    case MatchLimit::kWholePrompt:
      return "whole_prompt";
    case MatchLimit::kNoCheckpoint:
      return "no_checkpoint";
    case MatchLimit::kNotComputed:
      return "being_read";
    case MatchLimit::kTooShort:
      return "too_short";
    case MatchLimit::kRowsWanted:
      return "prompt_logprobs";
  }
  return "new";
}

std::string_view ReuseSourceName(ReuseSource source) {
  switch (source) {
    case ReuseSource::kNone:
      return "none";
    case ReuseSource::kLive:
      return "live";
    case ReuseSource::kRam:
      return "ram";
    case ReuseSource::kDisk:
      return "disk";
    case ReuseSource::kBorrowed:
      return "borrowed";
  }
  return "none";
}

}  // namespace holdfast
