#include "cli/commands.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "cli/bench.h"
#include "cli/chat.h"
#include "cli/doctor.h"
#include "cli/find_model.h"
#include "cli/inspect.h"
#include "cli/logits.h"
#include "cli/perplexity.h"
#include "cli/prepare.h"
#include "cli/run.h"
#include "cli/serve.h"
#include "cli/sessions.h"
#include "cli/settings.h"
#include "cli/synth.h"
#include "cli/tokenize.h"
#include "cli/verify.h"
#include "state/layout.h"

namespace holdfast::cli {
namespace {

// A flag whose absence means something of its own.
template <typename T>
CLI::Option* AddOptional(CLI::App* app, const std::string& name, std::optional<T>* value,
                         const std::string& help) {
  return app->add_option_function<T>(
      name, [value](const T& given) { *value = given; }, help);
}

void AddModelFlag(CLI::App* app, std::string* model) {
  app->add_option("-m,--model", *model, "model file (GGUF); default: the shipped demo model");
}

void AddModelFlags(CLI::App* app, ModelOptions* options) {
  AddModelFlag(app, &options->model);
  app->add_option("--threads", options->threads, "threads; 0: all CPUs")
      ->check(CLI::NonNegativeNumber);
  app->add_option("--kv", options->kv, "format of K/V cells: int8, f16 or f32")
      ->capture_default_str();
  app->add_option("--activations", options->activations,
                  "activations in products with quantised weights: auto (int16 for narrow models, "
                  "else int8), int8, int16 or f32")
      ->capture_default_str();
  app->add_option("--kernels", options->kernels,
                  "auto, scalar, avx2, avx512, avx512vnni or neon (same bits, other speed)")
      ->capture_default_str();
  app->add_option("--expert-memory", options->expert_memory,
                  "RAM for routed experts: a size, the others are read from the file when they are "
                  "needed; all: all of them, mapped; auto: all where they fit (same replies)")
      ->capture_default_str();
  app->add_option(
         "--ngram-memory", options->ngram_memory,
         "RAM for rows of the n-gram table: a size, the others are read from the file when "
         "they are needed; all: the whole table, mapped; auto: mapped where it fits (same "
         "replies)")
      ->capture_default_str();
  app->add_option("--repack", options->repack,
                  "copies of IQ2 and IQ3 weights in a form that is computed with faster and takes "
                  "more memory: on, off, or auto: where there is plenty (same replies)")
      ->capture_default_str();
  app->add_option("--expert-reader", options->expert_reader,
                  "what reads experts and n-gram rows: io_uring, pread (threads), or auto: "
                  "io_uring where it may be had")
      ->capture_default_str();
  app->add_option("--expert-file", options->expert_file,
                  "a file of `holdfast prepare` to read experts from, off, or auto: one beside the "
                  "model (same replies)")
      ->capture_default_str();
}

void AddEngineFlags(CLI::App* app, ModelOptions* options) {
  AddModelFlags(app, options);
  app->add_option("--mtp", options->mtp,
                  "draft-head sidecar (GGUF), or off; default: one beside the model");
  app->add_option("--draft", options->draft,
                  "tokens to guess ahead: auto (as many as pay), off or a number (same replies)")
      ->capture_default_str();
  app->add_option(
         "--draft-source", options->draft_source,
         "who guesses: mtp (the draft head), lookup (what followed the same tokens earlier "
         "in the conversation), or auto: mtp where the model has it, else lookup")
      ->capture_default_str();
  app->add_option("--draft-norm", options->draft_norm,
                  "the draft head's hidden rows are normed flat or per-stream")
      ->capture_default_str();
  app->add_option("--draft-vocab", options->draft_vocab,
                  "the draft head guesses only the N lowest token ids, which is faster; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app->add_option("-c,--ctx", options->ctx,
                  "context length in tokens; 0: as trained, or what memory allows")
      ->check(CLI::NonNegativeNumber);
  app->add_flag("--verify-weights", options->verify_weights,
                "read all weights first and compare them with the checksums of `holdfast prepare`");
}

void AddCacheFlags(CLI::App* app, CacheOptions* options) {
  app->add_option("--cache-ram", options->cache_ram,
                  "RAM for parked conversations: a size such as 8G, or auto; 0: none")
      ->capture_default_str();
  app->add_option("--cache-min-free", options->cache_min_free, "RAM that stays free in the host")
      ->capture_default_str();
  app->add_option("--cache-min-tokens", options->cache_min_tokens,
                  "WRITE[,READ]: shorter conversations are not kept, shorter matches not used")
      ->capture_default_str();
  app->add_option("--memory-limit", options->memory_limit,
                  "RAM this process may take; default: what the host and its cgroups allow");
  app->add_option("--store", options->store, "folder of saved conversations, default, or off")
      ->capture_default_str();
  app->add_option("--cache-disk", options->cache_disk, "size of the store's files; 0: no limit")
      ->capture_default_str();
  app->add_option(
         "--autosave", options->autosave,
         "turn: a reply ends when it is saved; idle: soon after; off: on eviction and exit")
      ->capture_default_str();
  app->add_option("--autosave-interval", options->autosave_interval_s,
                  "seconds within which an idle save is done")
      ->capture_default_str();
  app->add_option("--store-write-limit", options->store_write_limit,
                  "bytes saves may write in an hour; 0: no limit")
      ->capture_default_str();
}

Command RunCommand(CLI::App* parent) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* app = parent->add_subcommand("run", "generate one reply and print it");
  AddEngineFlags(app, &options->model);
  AddOptional(app, "-p,--prompt", &options->prompt,
              "a user message (with --raw: the whole prompt)");
  app->add_option("--tokens", options->tokens_path,
                  "JSON file with the prompt's token ids instead");
  app->add_option("--system", options->system, "system message");
  app->add_flag("--raw", options->raw, "no chat template: the prompt is continued as it is");
  app->add_option("--think", options->think, "thinking: on, off, low, medium or high");
  app->add_option("-n,--predict", options->n, "tokens at most; -1: to the end of the turn")
      ->check(CLI::Range(int64_t{-1}, int64_t{1} << 40));
  AddOptional(app, "--temp", &options->temp, "temperature; 0 picks the best token");
  AddOptional(app, "--top-k", &options->top_k, "keep the k best tokens; 0: all");
  AddOptional(app, "--top-p", &options->top_p,
              "keep the fewest tokens that reach this probability");
  AddOptional(app, "--min-p", &options->min_p, "keep tokens of at least this share of the best");
  AddOptional(app, "--seed", &options->seed, "random seed; default: a random one");
  app->add_flag("--ignore-eos", options->ignore_eos, "go on after an end token");
  app->add_flag("--json", options->json, "print one JSON object: tokens, text, timings, reuse");
  AddProfileFlag(app, &options->profile);
  return {app, false, [options] { return RunRun(*options, std::cout); }};
}

Command ChatCommand(CLI::App* parent) {
  const auto options = std::make_shared<ChatOptions>();
  CLI::App* app = parent->add_subcommand("chat", "talk to the model; also through a pipe");
  AddEngineFlags(app, &options->model);
  app->add_option("--system", options->system, "system message");
  app->add_option("--think", options->think, "thinking: on, off, low, medium or high");
  app->add_option("-n,--predict", options->n, "tokens of a reply at most; -1: no limit")
      ->check(CLI::Range(int64_t{-1}, int64_t{1} << 40));
  AddOptional(app, "--temp", &options->temp, "temperature; 0 picks the best token");
  AddOptional(app, "--seed", &options->seed, "random seed; default: a random one for each reply");
  return {app, false, [options] { return RunChat(*options, std::cout); }};
}

Command ServeCommand(CLI::App* parent, std::shared_ptr<const ConfigSources> sources) {
  const auto options = std::make_shared<ServeOptions>();
  CLI::App* app = parent->add_subcommand("serve", "answer HTTP requests: docs/http_api.md");
  AddEngineFlags(app, &options->model);
  app->add_option("--host", options->host, "address to bind")->capture_default_str();
  app->add_option("--port", options->port, "port; 0: any free one, which is printed")
      ->capture_default_str();
  app->add_option("--api-key", options->api_keys,
                  "key a client must send; may be given repeatedly");
  app->add_flag("--insecure", options->insecure, "allow an address others can reach without a key");
  app->add_option("--alias", options->alias, "the model's name in responses");
  AddCacheFlags(app, &options->cache);
  app->add_option("--tls-cert", options->tls_cert, "certificate chain (PEM): serve HTTPS");
  app->add_option("--tls-key", options->tls_key, "its private key (PEM)");
  app->add_option("--cors-origin", options->cors_origins,
                  "origin whose web pages may read answers; may be given repeatedly");
  app->add_option("--max-connections-per-address", options->max_connections_per_address,
                  "of one client; 0: no limit, -1: 256, and none on a loopback address")
      ->capture_default_str();
  app->add_option("--pin-billing-line", options->pin_billing_line,
                  "read the changing first line of Claude Code's prompts as a constant: on or off")
      ->capture_default_str();
  app->add_flag("--warm", options->warm,
                "read the weights into memory before the first request, not when they are needed");
  app->add_option("--slots", options->slots, "requests that are computed together")
      ->capture_default_str();
  app->add_option("--step-target-ms", options->step_target_ms,
                  "how long a step may take while others are answering")
      ->capture_default_str();
  app->add_option("--shutdown-timeout", options->shutdown_timeout_s,
                  "seconds running replies get after SIGTERM")
      ->capture_default_str();
  app->add_option("--stall-timeout", options->stall_timeout_s,
                  "seconds without progress after which a step is stuck: its requests fail and the "
                  "engine is restarted")
      ->capture_default_str();
  app->add_option("--stall-restarts", options->stall_restarts,
                  "restarts of the engine in an hour; at the next stuck step the server ends")
      ->capture_default_str();
  app->add_option("--max-body-mib", options->max_body_mib, "largest request body in MiB")
      ->capture_default_str();
  AddProfileFlag(app, &options->profile);
  return {app, true, [app, options, sources] {
            options->settings = SettingsOf(*app, sources->configured);
            return RunServe(*options, std::cout);
          }};
}

Command LogitsCommand(CLI::App* parent) {
  const auto options = std::make_shared<LogitsOptions>();
  CLI::App* app = parent->add_subcommand("logits", "write the logits of every position to a file");
  AddModelFlags(app, &options->model);
  app->add_option("--tokens", options->tokens_path, "JSON file with token ids")->required();
  app->add_option("--out", options->out_path, "file for raw little-endian f32 rows")->required();
  app->add_option("--last", options->last, "only the last rows; 0: all");
  app->add_option("--chunk", options->chunk, "rows of a step, at most 8192; 0: 512 (same bits)");
  return {app, false, [options] { return RunLogits(*options, std::cout); }};
}

Command VerifyCommand(CLI::App* parent) {
  const auto options = std::make_shared<VerifyCommandOptions>();
  CLI::App* app = parent->add_subcommand(
      "verify", "prove on this machine that no batch, guess, save or restore changes a bit");
  AddModelFlags(app, &options->model);
  app->add_option("--mtp", options->model.mtp,
                  "draft-head sidecar (GGUF), or off; default: one beside the model");
  app->add_flag("--quick", options->quick, "shorter conversations, fewer settings");
  app->add_flag("--json", options->json, "print one JSON object");
  app->add_option("--only", options->only, "only cases that have this text in their names");
  app->add_option("--seed", options->seed, "of the prompts")->capture_default_str();
  app->add_option("--cache-min-free", options->cache_min_free, "RAM that stays free in the host")
      ->capture_default_str();
  app->add_option("--memory-limit", options->memory_limit,
                  "RAM this process may take; default: what the host and its cgroups allow");
  app->add_option("--restored-part", options->restored_part)->group("");
  return {app, false, [options] { return RunVerifyCommand(*options, std::cout); }};
}

Command BenchCommand(CLI::App* parent) {
  const auto options = std::make_shared<BenchCommandOptions>();
  CLI::App* app = parent->add_subcommand(
      "bench", "measure prefill, decode, parking and saving against what the machine could do");
  AddModelFlags(app, &options->model);
  app->add_option("--mtp", options->model.mtp,
                  "draft-head sidecar (GGUF), or off; default: one beside the model");
  app->add_option("--prefill", options->prefill,
                  "tokens of the prompts that are read: A,B; 0: none");
  app->add_option("--decode", options->decode, "tokens of a reply; 0: none")->capture_default_str();
  app->add_option("--depth", options->depth, "tokens that are there already: A,B");
  app->add_option("--slots", options->slots, "replies that are decoded together: A,B");
  app->add_option("--draft", options->model.draft,
                  "guesses by the draft head: auto (with and without), on, off or a number")
      ->capture_default_str();
  app->add_option("--repeat", options->repeat, "runs of each figure; 0: up to 5, for some seconds");
  app->add_flag("--no-state", options->no_state, "leave out park, restore, save and load");
  app->add_option("--dir", options->dir,
                  "folder for what is saved; default: where temporary files go");
  app->add_option("--memory-limit", options->memory_limit,
                  "RAM this process may take; default: what the host and its cgroups allow");
  app->add_flag("--json", options->json, "print one JSON object for each figure, a line each");
  app->add_option("--compare", options->compare, "an earlier --json run to compare with");
  // HOLDFAST_STORE is the folder that `serve --store` names.
  app->add_flag("--store", options->store, "measure saving and loading against the disk instead")
      ->envname("HOLDFAST_BENCH_STORE");
  app->add_option("--bytes", options->bytes, "with --store: SIZE of what is saved")
      ->capture_default_str();
  AddProfileFlag(app, &options->profile);
  return {app, false, [options] { return RunBenchCommand(*options, std::cout); }};
}

Command PerplexityCommand(CLI::App* parent) {
  const auto options = std::make_shared<PerplexityOptions>();
  CLI::App* app = parent->add_subcommand("perplexity", "measure a text as llama.cpp's tool does");
  AddModelFlags(app, &options->model);
  app->add_option("-c,--ctx", options->model.ctx, "tokens of a window; default 512");
  app->add_option("file", options->text_path, "the text; - is standard input")->required();
  app->add_flag("--json", options->json, "print one JSON object");
  return {app, false, [options] { return RunPerplexity(*options, std::cout); }};
}

Command InspectCommand(CLI::App* parent) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* app = parent->add_subcommand("inspect", "print what a model file holds");
  app->add_option("file", options->model_path, "model file (GGUF)")->required();
  app->add_option("--mtp", options->mtp_path,
                  "draft-head sidecar (GGUF), or off; default: one beside the model");
  app->add_flag("!--no-tensors", options->list_tensors, "leave out the line for each tensor");
  const auto kv = std::make_shared<std::string>("int8");
  app->add_option("--kv", *kv, "format of K/V cells for the sizes of the state")
      ->capture_default_str();
  return {app, false, [options, kv]() -> Status {
            HF_ASSIGN_OR_RETURN(const KvFormat format, ParseKvFormat(*kv));
            options->describe_state = [format](const ModelConfig& config) {
              const Result<StateLayout> layout = StateLayout::Create(config, format);
              return layout.ok() ? layout->Describe() : layout.status().message() + "\n";
            };
            return RunInspect(*options, std::cout);
          }};
}

Command TokenizeCommand(CLI::App* parent) {
  const auto options = std::make_shared<TokenizeOptions>();
  CLI::App* app = parent->add_subcommand("tokenize", "print the token ids of a text");
  AddModelFlag(app, &options->model);
  app->add_option("-f,--file", options->file, "the text; - is standard input")->required();
  app->add_flag("--special", options->special, "recognise control tokens");
  app->add_flag("--json", options->json, "print {\"tokens\": [...]}");
  return {app, false, [options]() -> Status {
            HF_ASSIGN_OR_RETURN(options->model, FindModel(options->model));
            return RunTokenize(*options, std::cout);
          }};
}

Command SynthCommand(CLI::App* parent) {
  const auto options = std::make_shared<SynthOptions>();
  CLI::App* app =
      parent->add_subcommand("synth", "make a model of real dimensions with random weights");
  app->add_option("--preset", options->preset, "flash-next, flash-next-8x64 or tiny")
      ->capture_default_str();
  AddOptional(app, "--layers", &options->n_layers, "layers of the trunk");
  AddOptional(app, "--experts", &options->n_experts, "routed experts of a layer");
  AddOptional(app, "--experts-used", &options->n_experts_used, "experts used for a token");
  AddOptional(app, "--vocab", &options->vocab_size, "tokens of the vocabulary");
  AddOptional(app, "--ngram-rows", &options->ngram_rows, "rows of each n-gram head");
  app->add_option("--types", options->types, "quantisation: Q4_K, or experts=Q4_K,down=Q5_1,...");
  app->add_option("--tokenizer", options->tokenizer_path, "GGUF file whose tokenizer is copied");
  app->add_flag("--with-mtp", options->mtp, "with a draft layer");
  app->add_flag("--fused", options->fused_gate_up, "gate and up experts in one tensor");
  app->add_option("--seed", options->seed, "of the weights")->capture_default_str();
  app->add_option("--threads", options->n_threads, "threads")->capture_default_str();
  app->add_option("out", options->out_path, "the file to write")->required();
  return {app, false, [options] { return RunSynth(*options, std::cout); }};
}

Command PrepareCommand(CLI::App* parent) {
  const auto options = std::make_shared<PrepareCommandOptions>();
  CLI::App* app = parent->add_subcommand(
      "prepare", "copy a model's experts so that they can be read fastest, with checksums");
  app->add_option("file", options->model_path, "model file (GGUF)")->required();
  app->add_option("out", options->out_path,
                  "the file to write; default: FILE.experts, which is found by itself when the "
                  "model is loaded");
  return {app, false, [options] { return RunPrepare(*options, std::cout); }};
}

Command DoctorCommand(CLI::App* parent) {
  const auto options = std::make_shared<DoctorOptions>();
  CLI::App* app = parent->add_subcommand(
      "doctor", "look at this machine and a model: what works, what would not, what fits");
  AddEngineFlags(app, &options->model);
  AddCacheFlags(app, &options->cache);
  app->add_option("--slots", options->slots, "requests that are computed together")
      ->capture_default_str();
  app->add_flag("--json", options->json, "print one JSON object");
  return {app, false, [options] { return RunDoctor(*options, std::cout); }};
}

Command ConfigCommand(CLI::App* parent, std::shared_ptr<const ConfigSources> sources) {
  const auto options = std::make_shared<ConfigOptions>();
  CLI::App* app =
      parent->add_subcommand("config", "print the settings in force and where each comes from");
  app->add_option("command", options->command, "whose")->capture_default_str();
  app->add_flag("--example", options->example, "print a settings file with everything in it");
  app->add_flag("--json", options->json, "print one JSON object");
  return {app, false,
          [parent, options, sources] { return RunConfig(*options, *sources, parent, std::cout); }};
}

}  // namespace

std::vector<Command> MakeCommands(CLI::App* app, std::shared_ptr<const ConfigSources> sources) {
  return {RunCommand(app),      ChatCommand(app),           ServeCommand(app, sources),
          LogitsCommand(app),   PerplexityCommand(app),     InspectCommand(app),
          TokenizeCommand(app), SynthCommand(app),          PrepareCommand(app),
          SessionsCommand(app), VerifyCommand(app),         BenchCommand(app),
          DoctorCommand(app),   ConfigCommand(app, sources)};
}

}  // namespace holdfast::cli
