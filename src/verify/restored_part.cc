#include "verify/restored_part.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

extern char** environ;

namespace holdfast {
namespace {

using Json = nlohmann::json;

// Long enough for any model that can be waited for at all.
constexpr auto kTimeout = std::chrono::hours(6);
constexpr auto kPoll = std::chrono::milliseconds(5);

Status WriteFile(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file ? OkStatus() : ErrnoError(errno, path);
}

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return ErrnoError(errno, path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Result<Json> ReadJson(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return DataLossError(path + ": not JSON");
  return json;
}

Json PlanOf(const VerifyOptions& options, const StageOptions& stage,
            const std::vector<Talk>& talks) {
  Json plan = {{"model", options.model_path},
               {"mtp", options.mtp_path},
               {"expert_arena_bytes", options.expert_arena_bytes},
               {"ngram_bytes", options.ngram_bytes},
               {"kv", std::string(KvFormatName(options.kv_format))},
               {"threads", options.cpu.n_threads},
               {"kernels", options.cpu.kernels},
               {"activations", std::string(ActivationFormatName(options.cpu.activations))},
               {"ctx", stage.ctx},
               {"slots", stage.n_slots},
               {"drafts", stage.max_drafts},
               {"work_bytes", stage.work_bytes},
               {"cache_bytes", stage.cache_ram_bytes},
               {"store", stage.store_dir},
               {"numerics", stage.numerics_key}};
  for (const Talk& talk : talks) {
    plan["talks"].push_back({{"prompt", talk.prompt},
                             {"reply", talk.reply},
                             {"sampled", talk.sampled},
                             {"seed", talk.seed}});
  }
  return plan;
}

// Waits for a process, at most until the time-out.
Status WaitFor(pid_t child, const std::string& command) {
  const auto end = std::chrono::steady_clock::now() + kTimeout;
  int status = 0;
  while (true) {
    const pid_t done = waitpid(child, &status, WNOHANG);
    if (done < 0 && errno != EINTR) return ErrnoError(errno, "waiting for " + command);
    if (done == child) break;
    if (std::chrono::steady_clock::now() > end) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return DeadlineExceededError(command + ": the new process did not end");
    }
    std::this_thread::sleep_for(kPoll);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return OkStatus();
  return InternalError(WIFSIGNALED(status)
                           ? fmt::format("{}: ended by signal {}", command, WTERMSIG(status))
                           : fmt::format("{}: exit code {}", command, WEXITSTATUS(status)));
}

Status RunCommand(std::vector<std::string> command) {
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], nullptr, nullptr, argv.data(), environ);
  if (error != 0) return ErrnoError(error, "starting " + command[0]);
  return WaitFor(child, command[0]);
}

}  // namespace

Result<RestoredOutcome> AnswerInNewProcess(const VerifyOptions& options, const StageOptions& stage,
                                           const std::vector<Talk>& talks,
                                           const std::string& folder) {
  HF_RETURN_IF_ERROR(WriteFile(folder + "/plan.json", PlanOf(options, stage, talks).dump()));
  if (options.new_process.empty()) {
    HF_RETURN_IF_ERROR(RunRestoredPart(folder));
  } else {
    std::vector<std::string> command = options.new_process;
    command.push_back(folder);
    HF_RETURN_IF_ERROR(RunCommand(std::move(command)));
  }
  RestoredOutcome outcome;
  HF_ASSIGN_OR_RETURN(const Json json, ReadJson(folder + "/outcome.json"));
  for (const Json& reply : json) {
    outcome.replies.push_back({.tokens = reply.at("tokens").get<std::vector<TokenId>>(),
                               .n_reused = reply.at("reused").get<int64_t>(),
                               .source = reply.at("source").get<int>(),
                               .error = reply.at("error").get<std::string>(),
                               .reason = reply.at("reason").get<std::string>()});
  }
  HF_ASSIGN_OR_RETURN(const std::string facts, ReadFile(folder + "/facts"));
  outcome.facts.resize(facts.size() / sizeof(Fact));
  std::memcpy(outcome.facts.data(), facts.data(), outcome.facts.size() * sizeof(Fact));
  return outcome;
}

Status RunRestoredPart(const std::string& folder) {
  HF_ASSIGN_OR_RETURN(const Json plan, ReadJson(folder + "/plan.json"));
  VerifyOptions options{.model_path = plan.at("model").get<std::string>(),
                        .mtp_path = plan.at("mtp").get<std::string>()};
  HF_ASSIGN_OR_RETURN(options.kv_format, ParseKvFormat(plan.at("kv").get<std::string>()));
  HF_ASSIGN_OR_RETURN(options.cpu.activations,
                      ParseActivationFormat(plan.at("activations").get<std::string>()));
  options.expert_arena_bytes = plan.at("expert_arena_bytes").get<uint64_t>();
  options.ngram_bytes = plan.at("ngram_bytes").get<uint64_t>();
  options.cpu.n_threads = plan.at("threads").get<int>();
  options.cpu.kernels = plan.at("kernels").get<std::string>();
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<Rig> rig, Rig::Create(options, options.cpu));
  Ledger ledger(&rig->model().layout(), rig->model().draft_layout());
  std::vector<Fact> facts;
  ledger.set_listener([&](const Fact& fact) { facts.push_back(fact); });
  rig->Attach(&ledger);
  rig->check().set_collect_unknown(false);
  HF_ASSIGN_OR_RETURN(const auto stage,
                      Stage::Create(&rig->model(), &rig->tokenizer(),
                                    {.ctx = plan.at("ctx").get<int64_t>(),
                                     .n_slots = plan.at("slots").get<int>(),
                                     .max_drafts = plan.at("drafts").get<int>(),
                                     .work_bytes = plan.at("work_bytes").get<uint64_t>(),
                                     .cache_ram_bytes = plan.at("cache_bytes").get<uint64_t>(),
                                     .store_dir = plan.at("store").get<std::string>(),
                                     .numerics_key = plan.at("numerics").get<std::string>()}));
  for (const Json& json : plan.at("talks")) {
    const Talk talk{.prompt = json.at("prompt").get<std::vector<TokenId>>(),
                    .sampled = json.at("sampled").get<bool>(),
                    .seed = json.at("seed").get<uint64_t>(),
                    .reply = json.at("reply").get<std::vector<TokenId>>()};
    stage->Ask({.prompt = talk.prompt,
                .sampling = talk.sampling(),
                .max_tokens = static_cast<int64_t>(talk.reply.size()),
                .ignore_eos = true},
               talk.reply);
  }
  HF_RETURN_IF_ERROR(stage->RunAll());
  Json outcome = Json::array();
  for (const AskedPtr& asked : stage->asked()) {
    const GenerateResult& r = asked->result;
    outcome.push_back({{"tokens", asked->tokens},
                       {"reused", r.reuse.tokens_reused},
                       {"source", static_cast<int>(r.reuse.source)},
                       {"reason", r.reuse.reason},
                       {"error", r.status.ok() ? "" : r.status.ToString()}});
  }
  for (const Conversation* c : stage->cache().List()) {
    HF_RETURN_IF_ERROR(rig->check().AddConversation(*c));
  }
  const auto bytes = std::as_bytes(std::span(facts));
  HF_RETURN_IF_ERROR(
      WriteFile(folder + "/facts", {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  return WriteFile(folder + "/outcome.json", outcome.dump());
}

}  // namespace holdfast
