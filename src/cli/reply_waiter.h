#ifndef HOLDFAST_CLI_REPLY_WAITER_H_
#define HOLDFAST_CLI_REPLY_WAITER_H_

#include <functional>
#include <memory>

#include "server/generation.h"

namespace holdfast::cli {

// Runs a request to its end on the calling thread: `on_event` gets every event as it comes.
// `interrupted` is asked about ten times a second; true cancels the request, which then ends with
// kCancelled. Errors: those of Submit.
Result<FinishedReply> RunToEnd(const std::shared_ptr<const ModelService>& model,
                               GenerateRequest request, ReplyAssembler assembler,
                               const std::function<void(const GenerationEvent&)>& on_event,
                               const std::function<bool()>& interrupted);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_REPLY_WAITER_H_
