#ifndef HOLDFAST_CLI_PERPLEXITY_H_
#define HOLDFAST_CLI_PERPLEXITY_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "cli/model_options.h"

namespace holdfast::cli {

struct PerplexityOptions {
  ModelOptions model;     // its ctx is the window
  std::string text_path;  // a text; "-" is standard input
  bool json = false;      // one object at the end instead of a line per window
};

// The perplexity of a text as llama.cpp's tool measures it, so that figures compare: the text
// (added tokens recognised) is cut into windows of ctx tokens (default 512), each read on its own;
// the tokens of its second half but for the first are scored; an incomplete window at the end is
// left out.
Status RunPerplexity(const PerplexityOptions& options, std::ostream& out);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_PERPLEXITY_H_
