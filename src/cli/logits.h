#ifndef HOLDFAST_CLI_LOGITS_H_
#define HOLDFAST_CLI_LOGITS_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "cli/model_options.h"

namespace holdfast::cli {

struct LogitsOptions {
  ModelOptions model;
  std::string tokens_path;  // a JSON file with ids
  std::string out_path;     // raw little-endian f32 rows, [rows, vocab_size]
  int64_t last = 0;         // only the last rows; 0: all
  int64_t chunk = 0;        // rows of a step, at most 8192; 0: 512
};

// Reads the tokens and writes the rows to the file and, for the same rows, one line each to `out`:
// {"position":P,"argmax":ID}. A long read says on standard error how far it is. A row that is not
// finite ends it, after that row was written.
Status RunLogits(const LogitsOptions& options, std::ostream& out);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_LOGITS_H_
