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
  int64_t chunk = 0;        // rows of a step; 0: as many as fit
};

// Reads the tokens and writes the rows to the file and, for the same rows, one line each to `out`:
// {"position":P,"argmax":ID}.
Status RunLogits(const LogitsOptions& options, std::ostream& out);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_LOGITS_H_
