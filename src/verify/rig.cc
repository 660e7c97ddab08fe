#include "verify/rig.h"

#include "token/placeholder_vocabulary.h"
#include "token/vocabulary.h"

namespace holdfast {

Result<std::unique_ptr<Tokenizer>> TokenizerOf(const Model& model) {
  Result<VocabularyData> vocabulary = ReadVocabulary(model.file());
  if (vocabulary.status().code() == StatusCode::kNotFound) {
    const int64_t n = model.config().vocab_size;
    if (n < 256) return vocabulary.status();
    vocabulary = PlaceholderVocabulary(n);
  }
  if (!vocabulary.ok()) return vocabulary.status();
  return Tokenizer::Create(*std::move(vocabulary));
}

Result<std::unique_ptr<Rig>> Rig::Create(const VerifyOptions& options,
                                         const CpuBackendOptions& cpu) {
  std::unique_ptr<Rig> rig(new Rig);
  if (options.make_backend) {
    HF_ASSIGN_OR_RETURN(rig->backend_, options.make_backend(cpu));
  } else {
    HF_ASSIGN_OR_RETURN(rig->backend_, CpuBackend::Create(cpu));
  }
  HF_ASSIGN_OR_RETURN(rig->model_,
                      Model::Load(options.model_path,
                                  {.mtp_path = options.mtp_path, .kv_format = options.kv_format},
                                  rig->backend_.get()));
  HF_RETURN_IF_ERROR(OpenExpertFile(options.expert_memory, rig->model_.get()));
  HF_RETURN_IF_ERROR(rig->StreamWeights(options));
  HF_ASSIGN_OR_RETURN(rig->tokenizer_, TokenizerOf(*rig->model_));
  return rig;
}

Status Rig::StreamWeights(const VerifyOptions& options) {
  if (options.ngram_bytes > 0) {
    HF_RETURN_IF_ERROR(model_->StreamNgramRows(
        {.memory_bytes = options.ngram_bytes, .reader = options.ngram_memory.reader}));
  }
  if (options.expert_arena_bytes == 0) return OkStatus();
  return model_->StreamExperts(
      {.arena_bytes = options.expert_arena_bytes, .reader = options.expert_memory.reader});
}

void Rig::Attach(Ledger* ledger) {
  check_ = std::make_unique<StateCheck>(backend_.get(), &model_->layout(), model_->draft_layout(),
                                        ledger);
  model_->set_row_observer([ledger](const RowPoint& row) {
    const int64_t n_tokens = static_cast<int64_t>(row.sequence.tokens.size());
    uint64_t prefix = HashPrefix(row.sequence.tokens.first(std::min(n_tokens, row.position + 1)));
    if (row.position >= n_tokens) {
      prefix = HashPrefix(row.sequence.drafts.first(row.position + 1 - n_tokens), prefix);
    }
    ledger->Add({.subject = {SubjectKind::kLogits},
                 .prefix = prefix,
                 .position = row.position,
                 .value = Hash128Of(std::as_bytes(row.logits))});
  });
}

}  // namespace holdfast
