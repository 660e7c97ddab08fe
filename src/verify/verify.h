#ifndef HOLDFAST_VERIFY_VERIFY_H_
#define HOLDFAST_VERIFY_VERIFY_H_

// `holdfast verify`: proves on this machine, with this model, that nothing the engine does to be
// fast changes an answer (docs/exactness.md). Each case does one such thing to conversations whose
// plain reading is known, and compares tokens, every row of logits and every part of their state.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/expert_memory.h"
#include "model/model.h"
#include "ops/cpu/cpu_backend.h"
#include "verify/ledger.h"

namespace holdfast {

// Tokens of the conversations; short ones prove as much on a small model as long ones do.
struct VerifySizes {
  std::vector<int64_t> prompts;  // of 8 conversations, the seventh the shortest
  int64_t reply = 0;
  int64_t long_prompt = 0;
  int64_t scalar_tokens = 0;  // the slow kernel set reads prompts of at most as many
  static VerifySizes For(bool quick, int64_t trained_ctx);
  int64_t ctx() const;  // what the longest conversation of any case needs
};

struct VerifyOptions {
  std::string model_path;
  std::string mtp_path;  // empty: what the trunk file has
  KvFormat kv_format = KvFormat::kInt8;
  CpuBackendOptions cpu;
  bool quick = false;
  std::optional<VerifySizes> sizes;  // none: by `quick`
  std::string only;                  // cases whose names have this text; empty: all
  uint64_t seed = 1;                 // of the prompts
  uint64_t min_free_bytes = uint64_t{1} << 30;
  std::optional<uint64_t> memory_limit_bytes;
  ExpertMemory expert_memory;
  // Not 0: experts are read into an arena of so many bytes. RunVerify() sets it by the plan.
  uint64_t expert_arena_bytes = 0;
  NgramMemory ngram_memory;
  uint64_t ngram_bytes = 0;  // the same for rows of the n-gram table
  // A command that calls RunRestoredPart() with the path that is appended to it, in another
  // process. Empty: what is proved by a new process is proved in this one.
  std::vector<std::string> new_process;
  // Makes what computes. Null: CpuBackend. Tests put a faulty one here.
  std::function<Result<std::unique_ptr<Backend>>(const CpuBackendOptions&)> make_backend;
};

enum class Verdict { kSame, kDifferent, kSkipped };

struct CaseReport {
  std::string name;
  Verdict verdict = Verdict::kSame;
  std::string note;  // why it was skipped, or what is different
  int64_t n_requests = 0;
  int64_t n_rows = 0;   // rows of logits that were compared
  int64_t n_parts = 0;  // items of states that were compared
  double seconds = 0.0;
};

struct ProofReport {
  std::string model;  // its file's name
  std::string plan;   // for people: what is loaded and how much memory that takes
  uint64_t seed = 0;
  std::vector<CaseReport> cases;
  std::optional<Difference> difference;  // the first; nothing is run after it
};

struct VerifyProgress {
  std::function<void(const std::string& plan)> on_plan;  // before anything is computed
  std::function<void(const std::string& name, int index, int n_cases)> on_begin;
  std::function<void(const CaseReport&)> on_case;
};

// An error means that the proof could not be carried out, not that it failed.
Result<ProofReport> RunVerify(const VerifyOptions& options, const VerifyProgress& progress = {});

// The part of a case that runs in a process of its own (VerifyOptions::new_process).
Status RunRestoredPart(const std::string& path);

}  // namespace holdfast

#endif  // HOLDFAST_VERIFY_VERIFY_H_
