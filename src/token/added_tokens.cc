#include "token/added_tokens.h"

namespace holdfast {
namespace {

uint64_t Edge(uint64_t node, char byte) { return node << 8 | static_cast<uint8_t>(byte); }

}  // namespace

void AddedTokenTrie::Add(std::string_view text, TokenId id, bool user_defined) {
  uint32_t node = 0;
  for (const char byte : text) {
    const auto [it, is_new] = edges_.emplace(Edge(node, byte), static_cast<uint32_t>(ends_.size()));
    if (is_new) ends_.emplace_back();
    node = it->second;
  }
  ends_[node] = {id, user_defined};
}

std::optional<AddedTokenTrie::Match> AddedTokenTrie::Longest(std::string_view text,
                                                             bool user_defined_only) const {
  std::optional<Match> best;
  uint32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto it = edges_.find(Edge(node, text[i]));
    if (it == edges_.end()) break;
    node = it->second;
    const End& end = ends_[node];
    if (end.id >= 0 && (end.user_defined || !user_defined_only)) best = Match{end.id, i + 1};
  }
  return best;
}

}  // namespace holdfast
