#include "cli/tokenize.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "cli/token_file.h"
#include "token/tokenizer.h"
#include "weights/gguf.h"

namespace holdfast {

Status RunTokenize(const TokenizeOptions& options, std::ostream& out) {
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(options.model));
  HF_ASSIGN_OR_RETURN(VocabularyData vocabulary, ReadVocabulary(*file));
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                      Tokenizer::Create(std::move(vocabulary)));
  HF_ASSIGN_OR_RETURN(const std::string text, cli::ReadFile(options.file));
  const std::vector<TokenId> ids =
      tokenizer->Encode(text, options.special ? AddedTokens::kAll : AddedTokens::kUserDefinedOnly);
  if (options.json) {
    out << nlohmann::json{{"tokens", ids}}.dump() << "\n";
    return OkStatus();
  }
  for (const TokenId id : ids) {
    const std::string_view bytes = tokenizer->TokenBytes(id, /*include_control=*/true);
    out << fmt::format("{:>8}  {}\n", id, Quoted(bytes));
  }
  return OkStatus();
}

}  // namespace holdfast
