#ifndef HOLDFAST_CLI_PREPARE_H_
#define HOLDFAST_CLI_PREPARE_H_

#include <ostream>
#include <string>

#include "base/status.h"

namespace holdfast::cli {

struct PrepareCommandOptions {
  std::string model_path;
  std::string out_path;  // empty: beside the model
};

// `holdfast prepare`: writes a model's experts once more, laid out for reading, with checksums.
Status RunPrepare(const PrepareCommandOptions& options, std::ostream& out);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_PREPARE_H_
