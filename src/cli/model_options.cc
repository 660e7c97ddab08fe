#include "cli/model_options.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <charconv>
#include <filesystem>
#include <regex>

#include "cli/cache_options.h"
#include "cli/find_model.h"
#include "weights/expert_file.h"

namespace holdfast::cli {
namespace {

Status NameFlag(const char* flag, const Status& status) {
  return Status(status.code(), fmt::format("{}: {}", flag, status.message()));
}

Status ReadDraft(const std::string& text, int* max_drafts) {
  if (text == "auto" || text == "off") {
    *max_drafts = text == "auto" ? -1 : 0;
    return OkStatus();
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *max_drafts);
  if (error == std::errc() && end == text.data() + text.size() && *max_drafts >= 0 &&
      *max_drafts <= DraftPolicy::kMaxDepth) {
    return OkStatus();
  }
  return InvalidArgumentError(
      fmt::format("--draft: '{}', wanted auto, off or 0 to {}", text, DraftPolicy::kMaxDepth));
}

// ExpertMemory or NgramMemory from "auto", "all" or a size.
template <typename Memory>
Status ReadWeightMemory(const char* flag, const std::string& text, Memory* memory) {
  if (text == "auto") return OkStatus();
  memory->kind = Memory::Kind::kAll;
  if (text == "all") return OkStatus();
  const Result<uint64_t> bytes = ParseSize(text);
  if (!bytes.ok()) return NameFlag(flag, bytes.status());
  memory->kind = Memory::Kind::kSize;
  memory->bytes = *bytes;
  return OkStatus();
}

Status ReadWeightMemories(const ModelOptions& options, EngineOptions* engine) {
  const Result<ReaderKind> reader = ParseReaderKind(options.expert_reader);
  if (!reader.ok()) return NameFlag("--expert-reader", reader.status());
  engine->expert_memory.reader = engine->ngram_memory.reader = *reader;
  HF_RETURN_IF_ERROR(
      ReadWeightMemory("--expert-memory", options.expert_memory, &engine->expert_memory));
  const Result<RepackMode> repack = ParseRepackMode(options.repack);
  if (!repack.ok()) return NameFlag("--repack", repack.status());
  engine->repack = *repack;
  return ReadWeightMemory("--ngram-memory", options.ngram_memory, &engine->ngram_memory);
}

void FindExpertFile(const ModelOptions& options, const std::string& model, ExpertMemory* memory) {
  if (options.expert_file == "off") return;
  memory->file_required = options.expert_file != "auto";
  memory->file = memory->file_required ? options.expert_file : ExpertFile::PathBeside(model);
  std::error_code error;
  if (!memory->file_required && !std::filesystem::exists(memory->file, error)) memory->file.clear();
}

// Nobody asked for the file beside the model: one that does not fit is no reason not to start.
std::string UsableSidecar(const std::string& model) {
  const std::string sidecar = FindSidecar(model);
  if (sidecar.empty()) return sidecar;
  const Status status = CheckSidecar(model, sidecar);
  if (status.ok()) return sidecar;
  spdlog::warn("no draft head: {} lies beside the model and cannot be used: {}", sidecar,
               status.message());
  return {};
}

}  // namespace

Result<EngineOptions> ToEngineOptions(const ModelOptions& options) {
  EngineOptions engine;
  HF_ASSIGN_OR_RETURN(engine.model_path, FindModel(options.model));
  if (options.mtp.empty()) {
    engine.mtp_path = UsableSidecar(engine.model_path);
  } else if (options.mtp != "off") {
    engine.mtp_path = options.mtp;
  }
  engine.ctx = options.ctx;
  engine.n_threads = options.threads;
  engine.kernels = options.kernels;
  HF_RETURN_IF_ERROR(ReadDraft(options.draft, &engine.max_drafts));
  const Result<DraftSource> source = ParseDraftSource(options.draft_source);
  if (!source.ok()) return NameFlag("--draft-source", source.status());
  engine.draft_source = *source;
  if (options.draft_norm != "flat" && options.draft_norm != "per-stream") {
    return InvalidArgumentError(
        fmt::format("--draft-norm: '{}', wanted flat or per-stream", options.draft_norm));
  }
  engine.draft_norm_per_stream = options.draft_norm == "per-stream";
  engine.draft_vocab = options.draft_vocab;
  const Result<KvFormat> kv = ParseKvFormat(options.kv);
  if (!kv.ok()) return NameFlag("--kv", kv.status());
  engine.kv_format = *kv;
  const Result<ActivationFormat> activations = ParseActivationFormat(options.activations);
  if (!activations.ok()) return NameFlag("--activations", activations.status());
  engine.activations = *activations;
  HF_RETURN_IF_ERROR(ReadWeightMemories(options, &engine));
  FindExpertFile(options, engine.model_path, &engine.expert_memory);
  engine.verify_weights = options.verify_weights;
  HF_RETURN_IF_ERROR(engine.Validate());
  return engine;
}

std::string ModelId(const std::string& model_path) {
  std::string name = std::filesystem::path(model_path).filename().string();
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  static const std::regex kSplit("-[0-9]{5}-of-[0-9]{5}$");
  return std::regex_replace(name, kSplit, "");
}

}  // namespace holdfast::cli
