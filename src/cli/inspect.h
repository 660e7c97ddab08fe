#ifndef HOLDFAST_CLI_INSPECT_H_
#define HOLDFAST_CLI_INSPECT_H_

#include <functional>
#include <ostream>
#include <string>

#include "base/status.h"
#include "weights/model_config.h"

namespace holdfast::cli {

struct InspectOptions {
  std::string model_path;
  std::string mtp_path;       // a draft sidecar; empty: one beside the model; "off": none
  bool list_tensors = true;   // one line for each
  ModelConfigOptions config;  // how the file is read as a model
  // The state that a conversation of this model has (bytes per token and per running state), as
  // text of whole lines. Null: not printed.
  std::function<std::string(const ModelConfig&)> describe_state;
};

// Prints what a model file is: metadata, tensors, sizes per type, the configuration as understood,
// its state, and what would not work. A file that can be read but not run is not an error here: the
// reason is what is printed. Errors: those of opening the file.
Status RunInspect(const InspectOptions& options, std::ostream& out);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_INSPECT_H_
