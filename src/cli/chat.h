#ifndef HOLDFAST_CLI_CHAT_H_
#define HOLDFAST_CLI_CHAT_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "cli/model_options.h"
#include "server/model_service.h"

namespace holdfast::cli {

struct ChatOptions {
  ModelOptions model;
  std::string system;
  std::string think;  // as SetThinking()
  int64_t n = -1;     // tokens of a reply at most
  std::optional<float> temp;
  std::optional<uint64_t> seed;
};

// A conversation on standard input and `out`. Lines are messages; those that begin with '/' are
// commands (/help). Ctrl-C stops the reply that is being written; on an empty line it says how to
// leave. Through a pipe no prompts are printed, only the replies.
Status RunChat(const ChatOptions& options, std::ostream& out);

// The conversation itself, on a model that is already there.
Status ChatLoop(const std::shared_ptr<const ModelService>& model, const ChatOptions& options,
                int input_fd, bool interactive, std::ostream& out);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_CHAT_H_
