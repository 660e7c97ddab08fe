#include "cli/tokenize.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "token/tokenizer.h"
#include "weights/gguf.h"

namespace holdfast {
namespace {

Result<std::string> ReadAll(const std::string& path) {
  using Bytes = std::istreambuf_iterator<char>;
  if (path == "-") return std::string(Bytes(std::cin), Bytes());
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return ErrnoError(errno, path);
  std::string text{Bytes(file), Bytes()};
  if (file.bad()) return ErrnoError(errno == 0 ? EIO : errno, path);
  return text;
}

}  // namespace

Status RunTokenize(const TokenizeOptions& options, std::ostream& out) {
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(options.model));
  HF_ASSIGN_OR_RETURN(VocabularyData vocabulary, ReadVocabulary(*file));
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                      Tokenizer::Create(std::move(vocabulary)));
  HF_ASSIGN_OR_RETURN(const std::string text, ReadAll(options.file));
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
