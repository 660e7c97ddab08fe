#ifndef HOLDFAST_CLI_RUN_H_
#define HOLDFAST_CLI_RUN_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "cli/model_options.h"
#include "cli/profile_option.h"

namespace holdfast::cli {

struct RunOptions {
  ModelOptions model;
  std::optional<std::string> prompt;  // a user message, or with `raw` the prompt itself
  std::string tokens_path;  // a JSON file with the prompt's ids instead: [..] or {"tokens": [..]}
  std::string system;       // a system message
  bool raw = false;         // no chat template; added tokens in the prompt are recognised
  std::string think;        // "on", "off", an effort; empty: as the template says
  int64_t n = -1;           // tokens at most; -1: until the end of the turn or of the context
  std::optional<float> temp;
  std::optional<int> top_k;
  std::optional<float> top_p, min_p;
  std::optional<uint64_t> seed;
  bool ignore_eos = false;
  bool json = false;  // one object at the end instead of text as it comes
  ProfileOption profile;
};

// Generates one reply to `out`. Ctrl-C ends it early, which is not an error.
Status RunRun(const RunOptions& options, std::ostream& out);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_RUN_H_
