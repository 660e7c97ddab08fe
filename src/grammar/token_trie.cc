#include "grammar/token_trie.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

namespace holdfast {

TokenTrie::TokenTrie(const Tokenizer* tokenizer)
    : tokenizer_(tokenizer),
      call_begin_(AddedToken("<tool_call>")),
      call_end_(AddedToken("</tool_call>")),
      think_end_(AddedToken("</think>")),
      thinking_(tokenizer->vocab_size()) {
  std::vector<std::pair<std::vector<Symbol>, TokenId>> tokens;
  for (TokenId id = 0; id < tokenizer->vocab_size(); ++id) {
    std::vector<Symbol> symbols = SymbolsOf(id);
    const bool is_marker = id == call_begin_ || id == call_end_;
    const bool in_thought = tokenizer->IsSampleable(id) && !tokenizer->IsEndOfGeneration(id) &&
                            !is_marker && tokenizer->type(id) != TokenType::kControl;
    if (in_thought || id == think_end_) thinking_.Add(id);
    if (symbols.empty() || symbols.size() > std::numeric_limits<uint16_t>::max()) continue;
    max_depth_ = std::max(max_depth_, static_cast<int>(symbols.size()));
    tokens.emplace_back(std::move(symbols), id);
  }
  std::ranges::sort(tokens);
  AddNodes(std::move(tokens));
}

std::optional<TokenId> TokenTrie::AddedToken(std::string_view text) const {
  const std::optional<TokenId> id = tokenizer_->FindToken(text);
  if (!id) return std::nullopt;
  const TokenType type = tokenizer_->type(*id);
  return type == TokenType::kControl || type == TokenType::kUserDefined ? id : std::nullopt;
}

std::vector<Symbol> TokenTrie::SymbolsOf(TokenId token) const {
  if (token == call_begin_) return {kCallBegin};
  if (token == call_end_) return {kCallEnd};
  const bool is_text = tokenizer_->type(token) == TokenType::kNormal &&
                       tokenizer_->IsSampleable(token) && !tokenizer_->IsEndOfGeneration(token);
  if (!is_text) return {};
  std::vector<Symbol> symbols;
  for (const char c : tokenizer_->TokenBytes(token, /*include_control=*/false)) {
    symbols.push_back(static_cast<uint8_t>(c));
  }
  return symbols;
}

void TokenTrie::AddNodes(std::vector<std::pair<std::vector<Symbol>, TokenId>> tokens) {
  std::vector<size_t> path;  // nodes from the top to the last one
  const auto close = [&](size_t depth) {
    while (path.size() > depth) {
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
      path.pop_back();
    }
  };
  for (const auto& [symbols, token] : tokens) {
    size_t common = 0;
    while (common < path.size() && common < symbols.size() &&
           nodes_[path[common]].symbol == symbols[common]) {
      ++common;
    }
    close(common);
    for (size_t i = common; i < symbols.size(); ++i) {
      path.push_back(nodes_.size());
      nodes_.push_back({.symbol = symbols[i], .depth = static_cast<uint16_t>(i + 1)});
    }
    nodes_[path.back()].token = token;
  }
  close(0);
}

int64_t TokenTrie::bytes() const { return static_cast<int64_t>(nodes_.size() * sizeof(Node)); }

}  // namespace holdfast
