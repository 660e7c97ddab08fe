#ifndef HOLDFAST_CLI_TOKENIZE_H_
#define HOLDFAST_CLI_TOKENIZE_H_

#include <iosfwd>
#include <string>

#include "base/status.h"

namespace holdfast {

// holdfast tokenize --model M --file F [--special] [--json]
struct TokenizeOptions {
  std::string model;     // a GGUF file with a tokenizer
  std::string file;      // the text, byte for byte; "-" is standard input
  bool special = false;  // recognise control tokens; user-defined ones always are
  bool json = false;     // {"tokens": [...]} instead of one id and text per line
};

// Prints the ids of a file's text. No BOS is added.
Status RunTokenize(const TokenizeOptions& options, std::ostream& out);

}  // namespace holdfast

#endif  // HOLDFAST_CLI_TOKENIZE_H_
