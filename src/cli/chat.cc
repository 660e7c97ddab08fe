#include "cli/chat.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "cli/interrupt.h"
#include "cli/line_reader.h"
#include "cli/loaded_model.h"
#include "cli/reply_waiter.h"
#include "cli/thinking.h"
#include "server/chat_request.h"
#include "server/openai_common.h"

namespace holdfast::cli {
namespace {

constexpr char kHelp[] =
    "  /new             forget the conversation and begin another\n"
    "  /system TEXT     set the system message (empty: none) and begin anew\n"
    "  /think WORD      on, off, low, medium or high; empty: as the model does by itself\n"
    "  /retry           answer the last message again\n"
    "  /undo            take back the last message and its reply\n"
    "  /stats           tokens and speed of the last reply\n"
    "  /quit            leave (or Ctrl-D)\n"
    "Ctrl-C stops a reply.\n";

class Chat {
 public:
  Chat(std::shared_ptr<const ModelService> model, const ChatOptions& options, bool interactive,
       std::ostream& out)
      : model_(std::move(model)), options_(options), interactive_(interactive), out_(out) {}

  Status Begin() {
    HF_RETURN_IF_ERROR(SetThinking(options_.think, &chat_.input));
    Reset();
    return OkStatus();
  }

  // False when the conversation is over.
  bool OnLine(const std::string& line) {
    if (line.starts_with('/')) return OnCommand(line);
    if (line.find_first_not_of(" \t") == std::string::npos) return true;
    chat_.input.messages.push_back({{"role", "user"}, {"content", line}});
    Answer();
    return true;
  }

  bool failed() const { return failed_; }

 private:
  void Reset() {
    chat_.input.messages = Json::array();
    if (!options_.system.empty()) {
      chat_.input.messages.push_back({{"role", "system"}, {"content", options_.system}});
    }
  }

  bool OnCommand(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string command = line.substr(0, space);
    std::string argument = space == std::string::npos ? "" : line.substr(space + 1);
    if (command == "/quit" || command == "/exit") return false;
    if (command == "/help") {
      out_ << kHelp;
    } else if (command == "/new") {
      Reset();
      Say("a new conversation");
    } else if (command == "/system") {
      options_.system = std::move(argument);
      Reset();
      Say("a new conversation with this system message");
    } else if (command == "/think") {
      const Status status = SetThinking(argument, &chat_.input);
      Say(status.ok() ? "set" : status.message());
    } else if (command == "/retry") {
      if (DropReply()) Answer();
    } else if (command == "/undo") {
      if (DropReply()) chat_.input.messages.erase(chat_.input.messages.size() - 1);
    } else if (command == "/stats") {
      Say(stats_.empty() ? "nothing was said yet" : stats_);
    } else {
      Say(fmt::format("there is no {}; /help lists the commands", command));
    }
    return true;
  }

  // Removes what follows the last user message; false, and a word, when there is none.
  bool DropReply() {
    Json& messages = chat_.input.messages;
    size_t n = messages.size();
    while (n > 0 && messages[n - 1]["role"] != "user") --n;
    if (n == 0) {
      Say("there is no message yet");
      return false;
    }
    while (messages.size() > n) messages.erase(messages.size() - 1);
    return true;
  }

  // A remark of the program, apart from what the model says.
  void Say(const std::string& text) {
    if (interactive_) out_ << "(" << text << ")\n";
  }

  void Fail(const Status& status) {
    failed_ = true;
    fmt::print(stderr, "holdfast: {}\n", status.message());
    // The message that could not be answered is not part of the conversation.
    if (DropReply()) chat_.input.messages.erase(chat_.input.messages.size() - 1);
  }

  void Answer() {
    chat_.options.sampling = model_->default_sampling;
    if (options_.temp) chat_.options.sampling.temperature = *options_.temp;
    chat_.options.sampling.seed = options_.seed;
    chat_.options.max_tokens = options_.n;
    Result<PreparedChat> prepared = PrepareChat(*model_, chat_);
    if (!prepared.ok()) return Fail(prepared.status());
    ReplyParser::Options parser;
    parser.starts_in_think = prepared->starts_in_think;

    InterruptCatcher::Clear();
    std::string content, reasoning;
    const Result<FinishedReply> finished = RunToEnd(
        model_, std::move(prepared->request),
        ReplyAssembler(model_->tokenizer, std::move(parser), {}),
        [&](const GenerationEvent& event) { Show(event, &content, &reasoning); },
        &InterruptCatcher::pressed);
    if (!finished.ok()) return Fail(finished.status());
    SetDim(false);
    out_ << std::endl;
    if (finished->result.reason == FinishReason::kError) return Fail(ReplyStatus(*finished));
    if (finished->result.reason == FinishReason::kCancelled) Say("stopped");
    if (finished->result.reason == FinishReason::kContextFull) Say("the context is full");
    InterruptCatcher::Clear();
    Remember(*finished, content, reasoning);
  }

  void Show(const GenerationEvent& event, std::string* content, std::string* reasoning) {
    const auto* reply = std::get_if<ReplyEvent>(&event);
    if (reply == nullptr) return;
    const bool thinking = reply->kind == ReplyEvent::Kind::kReasoning;
    if (dim_ && !thinking) out_ << "\n";
    SetDim(thinking);
    *(thinking ? reasoning : content) += reply->text;
    out_ << reply->text << std::flush;
  }

  // On a terminal thinking is shown dim.
  void SetDim(bool dim) {
    if (dim == dim_) return;
    dim_ = dim;
    if (interactive_) out_ << (dim ? "\033[2m" : "\033[0m");
  }

  void Remember(const FinishedReply& finished, const std::string& content,
                const std::string& reasoning) {
    Json message;
    message["role"] = "assistant";
    message["content"] = content;
    if (!reasoning.empty()) message["reasoning_content"] = reasoning;
    chat_.input.messages.push_back(std::move(message));
    const Json timings = TimingsJson(finished.result);
    stats_ = fmt::format(
        "{} prompt tokens, {} of them read at {:.0f} tokens/s; {} tokens of reply at {:.1f} "
        "tokens/s",
        finished.result.timings.n_prompt, finished.result.reuse.tokens_read,
        timings["prompt_per_second"].get<double>(), finished.result.timings.n_predicted,
        timings["predicted_per_second"].get<double>());
  }

  const std::shared_ptr<const ModelService> model_;
  ChatOptions options_;
  const bool interactive_;
  std::ostream& out_;
  ChatRequest chat_;
  std::string stats_;
  bool dim_ = false;
  bool failed_ = false;
};

}  // namespace

Status ChatLoop(const std::shared_ptr<const ModelService>& model, const ChatOptions& options,
                int input_fd, bool interactive, std::ostream& out) {
  Chat chat(model, options, interactive, out);
  HF_RETURN_IF_ERROR(chat.Begin());
  const InterruptCatcher catcher;
  LineReader reader(input_fd);
  std::string line;
  while (true) {
    if (interactive) out << "> " << std::flush;
    const LineReader::Outcome outcome = reader.Next(&line);
    if (outcome == LineReader::Outcome::kInterrupted) {
      if (!interactive) break;
      reader.DropPartialLine();
      out << "\n(/quit or Ctrl-D leaves)\n";
      InterruptCatcher::Clear();
      continue;
    }
    if (outcome == LineReader::Outcome::kEnd || !chat.OnLine(line)) break;
  }
  if (interactive) out << std::endl;
  // Somebody who watches has seen the message; a script needs the exit code.
  return chat.failed() && !interactive ? InternalError("a reply failed") : OkStatus();
}

Status RunChat(const ChatOptions& options, std::ostream& out) {
  HF_ASSIGN_OR_RETURN(const EngineOptions engine_options, ToEngineOptions(options.model));
  HF_ASSIGN_OR_RETURN(const LoadedModel loaded, LoadModel(engine_options, TerminalProgress()));
  PrintNotes(*loaded.engine);
  const bool interactive = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
  if (interactive) {
    out << fmt::format("{}, context of {} tokens. /help lists the commands.\n",
                       loaded.service->model_id, loaded.engine->context_length());
  }
  return ChatLoop(loaded.service, options, STDIN_FILENO, interactive, out);
}

}  // namespace holdfast::cli
