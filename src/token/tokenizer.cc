#include "token/tokenizer.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "token/added_tokens.h"
#include "token/bpe.h"
#include "token/byte_symbols.h"
#include "token/detokenizer.h"
#include "token/normalizer.h"
#include "token/pretokenizer.h"
#include "token/utf8.h"

namespace holdfast {
namespace {

// The texts of the end tokens that every vocabulary of the family has, whatever its ids.
constexpr std::array<std::string_view, 2> kEndTexts = {"<|im_end|>", "<|endoftext|>"};

bool IsAdded(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUserDefined;
}

}  // namespace

struct Tokenizer::Impl {
  VocabularyData data;
  Options options;
  std::unordered_map<std::string_view, TokenId> ids;  // by vocabulary text; views into data.tokens
  std::vector<std::string> bytes;                     // what each token stands for
  AddedTokenTrie added;
  std::unique_ptr<Pretokenizer> pretokenizer;
  std::unique_ptr<Bpe> bpe;
  std::vector<TokenId> end_of_generation;

  void IndexTokens();
  void BuildBpe();
  void FindEnds();
  bool Contains(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < data.tokens.size();
  }
  void EncodeFragment(std::string_view text, int64_t offset, TokenizedText* out) const;
  void Encode(std::string_view text, std::span<const Span> plain, bool user_defined_only,
              TokenizedText* out) const;
};

void Tokenizer::Impl::IndexTokens() {
  ids.reserve(data.tokens.size());
  bytes.reserve(data.tokens.size());
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    const std::string& text = data.tokens[i];
    const auto id = static_cast<TokenId>(i);
    ids.emplace(text, id);
    switch (data.types[i]) {
      case TokenType::kNormal:
        bytes.push_back(BytesOfSymbols(text).value_or(""));
        break;
      case TokenType::kUnused:
        bytes.emplace_back();
        break;
      default:
        bytes.push_back(text);
        break;
    }
    if (IsAdded(data.types[i])) added.Add(text, id, data.types[i] == TokenType::kUserDefined);
  }
}

void Tokenizer::Impl::BuildBpe() {
  std::array<TokenId, 256> byte_ids;
  for (size_t byte = 0; byte < 256; ++byte) {
    byte_ids[byte] = ids.at(ByteSymbol(static_cast<uint8_t>(byte)));
  }
  std::vector<BpeMerge> merges;
  merges.reserve(data.merges.size());
  for (const std::string& merge : data.merges) {
    const std::string_view text = merge;
    const size_t space = text.find(' ');
    const std::string_view left = text.substr(0, space), right = text.substr(space + 1);
    merges.push_back({ids.at(left), ids.at(right), ids.at(std::string(left).append(right))});
  }
  bpe = std::make_unique<Bpe>(byte_ids, merges);
}

void Tokenizer::Impl::FindEnds() {
  std::vector<TokenId>& ends = end_of_generation;
  for (const std::string_view text : kEndTexts) {
    const auto it = ids.find(text);
    if (it != ids.end()) ends.push_back(it->second);
  }
  for (const std::optional<TokenId>& id : {data.eos, data.eot}) {
    if (id) ends.push_back(*id);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
}

// A text without added tokens. `offset` is where it stands in the input.
void Tokenizer::Impl::EncodeFragment(std::string_view text, int64_t offset,
                                     TokenizedText* out) const {
  if (text.empty()) return;
  std::string changed;
  std::string_view clean = text;
  if (!IsValidUtf8(clean)) clean = changed = RepairUtf8(clean);
  if (options.normalise && !IsTriviallyNfc(clean)) clean = changed = NormalizeNfc(clean);
  const auto last = static_cast<int64_t>(text.size()) - 1;
  std::vector<int64_t> begins;
  for (const std::string_view piece : pretokenizer->Split(clean)) {
    begins.clear();
    bpe->Encode(piece, &out->ids, &begins);
    const int64_t piece_begin = piece.data() - clean.data();
    for (const int64_t begin : begins) {
      // A changed text may be longer than the original.
      out->begins.push_back(offset + std::min(piece_begin + begin, last));
    }
  }
}

void Tokenizer::Impl::Encode(std::string_view text, std::span<const Span> plain,
                             bool user_defined_only, TokenizedText* out) const {
  size_t fragment = 0;  // where the text not yet encoded begins
  size_t pos = 0;
  while (pos < text.size()) {
    while (!plain.empty() && plain.front().end <= static_cast<int64_t>(pos)) {
      plain = plain.subspan(1);
    }
    size_t limit = text.size();
    if (!plain.empty() && !plain.front().empty()) {
      if (plain.front().begin <= static_cast<int64_t>(pos)) {
        pos = std::min(static_cast<size_t>(plain.front().end), text.size());
        continue;
      }
      limit = std::min(limit, static_cast<size_t>(plain.front().begin));
    }
    const auto match = added.Longest(text.substr(pos, limit - pos), user_defined_only);
    if (!match) {
      ++pos;
      continue;
    }
    EncodeFragment(text.substr(fragment, pos - fragment), static_cast<int64_t>(fragment), out);
    out->ids.push_back(match->id);
    out->begins.push_back(static_cast<int64_t>(pos));
    pos += match->n_bytes;
    fragment = pos;
  }
  EncodeFragment(text.substr(fragment), static_cast<int64_t>(fragment), out);
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::Create(VocabularyData data) {
  return Create(std::move(data), Options());
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::Create(VocabularyData data, const Options& options) {
  HF_RETURN_IF_ERROR(ValidateVocabulary(data));
  HF_ASSIGN_OR_RETURN(Pretokenizer pretokenizer, Pretokenizer::Create(data.pre));
  auto impl = std::make_unique<Impl>();
  impl->data = std::move(data);
  impl->options = options;
  impl->pretokenizer = std::make_unique<Pretokenizer>(std::move(pretokenizer));
  impl->IndexTokens();
  impl->BuildBpe();
  impl->FindEnds();
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

std::vector<TokenId> Tokenizer::Encode(std::string_view text, AddedTokens added) const {
  TokenizedText out;
  if (added == AddedTokens::kNone) {
    impl_->EncodeFragment(text, 0, &out);
  } else {
    impl_->Encode(text, {}, added == AddedTokens::kUserDefinedOnly, &out);
  }
  return std::move(out.ids);
}

std::vector<TokenId> Tokenizer::Encode(const MarkedText& text) const {
  return EncodeWithOffsets(text).ids;
}

TokenizedText Tokenizer::EncodeWithOffsets(const MarkedText& text) const {
  TokenizedText out;
  impl_->Encode(text.text, text.plain, /*user_defined_only=*/false, &out);
  return out;
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, bool include_control) const {
  std::string bytes;
  for (const TokenId id : ids) bytes += TokenBytes(id, include_control);
  return RepairUtf8(bytes);
}

std::string_view Tokenizer::TokenBytes(TokenId id, bool include_control) const {
  if (type(id) == TokenType::kUnused) return {};
  const bool hidden = type(id) == TokenType::kControl || type(id) == TokenType::kUnknown;
  if (hidden && !include_control) return {};
  return impl_->bytes[static_cast<size_t>(id)];
}

bool Tokenizer::IsEndOfGeneration(TokenId id) const {
  return std::binary_search(impl_->end_of_generation.begin(), impl_->end_of_generation.end(), id);
}

const std::vector<TokenId>& Tokenizer::end_of_generation() const {
  return impl_->end_of_generation;
}

bool Tokenizer::IsSampleable(TokenId id) const { return type(id) != TokenType::kUnused; }

std::optional<TokenId> Tokenizer::FindToken(std::string_view text) const {
  const auto it = impl_->ids.find(text);
  if (it == impl_->ids.end()) return std::nullopt;
  return it->second;
}

int64_t Tokenizer::vocab_size() const { return static_cast<int64_t>(impl_->data.tokens.size()); }

TokenType Tokenizer::type(TokenId id) const {
  return impl_->Contains(id) ? impl_->data.types[static_cast<size_t>(id)] : TokenType::kUnused;
}

const std::string& Tokenizer::chat_template() const { return impl_->data.chat_template; }
std::optional<TokenId> Tokenizer::bos() const { return impl_->data.bos; }
std::optional<TokenId> Tokenizer::eos() const { return impl_->data.eos; }

std::optional<TokenId> Tokenizer::leading_bos() const {
  return impl_->data.add_bos ? impl_->data.bos : std::nullopt;
}

}  // namespace holdfast
