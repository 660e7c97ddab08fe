#include <fmt/format.h>

#include <limits>

#include "token/vocabulary.h"
#include "weights/gguf.h"

namespace holdfast {
namespace {

constexpr int64_t kMaxId = std::numeric_limits<int32_t>::max();

Result<std::vector<std::string>> Texts(const GgufFile& file, std::string_view key) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string_view> views, file.GetStrings(key));
  return std::vector<std::string>(views.begin(), views.end());
}

Status ReadId(const GgufFile& file, std::string_view key, std::optional<TokenId>* id) {
  if (file.Find(key) == nullptr) return OkStatus();
  HF_ASSIGN_OR_RETURN(const int64_t value, file.GetInt(key, 0, kMaxId));
  *id = static_cast<TokenId>(value);
  return OkStatus();
}

}  // namespace

Result<VocabularyData> ReadVocabulary(const GgufFile& file) {
  HF_ASSIGN_OR_RETURN(const std::string_view model, file.GetStringOr("tokenizer.ggml.model", ""));
  if (model.empty() || model == "none" || model == "no_vocab") {
    return NotFoundError(file.name() +
                         " has no tokenizer (tokenizer.ggml.model is absent or none)");
  }
  if (model != "gpt2") {
    return UnimplementedError(
        fmt::format("{}: tokenizer.ggml.model is {}, this program knows \"gpt2\" (byte-level BPE)",
                    file.name(), Quoted(model)));
  }
  VocabularyData data;
  HF_ASSIGN_OR_RETURN(data.tokens, Texts(file, "tokenizer.ggml.tokens"));
  HF_ASSIGN_OR_RETURN(data.merges, Texts(file, "tokenizer.ggml.merges"));
  HF_ASSIGN_OR_RETURN(const std::vector<int64_t> types,
                      file.GetInts("tokenizer.ggml.token_type", std::numeric_limits<int32_t>::min(),
                                   std::numeric_limits<int32_t>::max()));
  data.types.reserve(types.size());
  for (const int64_t type : types) data.types.push_back(static_cast<TokenType>(type));
  HF_RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.bos_token_id", &data.bos));
  HF_RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.eos_token_id", &data.eos));
  HF_RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.eot_token_id", &data.eot));
  HF_RETURN_IF_ERROR(ReadId(file, "tokenizer.ggml.padding_token_id", &data.pad));
  HF_ASSIGN_OR_RETURN(data.add_bos, file.GetBoolOr("tokenizer.ggml.add_bos_token", false));
  HF_ASSIGN_OR_RETURN(const std::string_view pre, file.GetStringOr("tokenizer.ggml.pre", ""));
  data.pre = pre;
  HF_ASSIGN_OR_RETURN(const std::string_view chat_template,
                      file.GetStringOr("tokenizer.chat_template", ""));
  data.chat_template = chat_template;
  if (const Status status = ValidateVocabulary(data); !status.ok()) {
    return Status(status.code(), file.name() + ": " + status.message());
  }
  return data;
}

}  // namespace holdfast
