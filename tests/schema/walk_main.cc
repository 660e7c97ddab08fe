// Schemas in, one a line; out comes a text that a random walk through the grammar of each has
// given, token by token over the demo model's vocabulary: {"ended", "text"} or {"error"}. What a
// model says under a grammar is such a walk too.
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "grammar/grammar_cache.h"
#include "grammar/test_support.h"

int main() {
  using namespace holdfast;  // NOLINT: a test program is one file
  constexpr int kMaxTokens = 500;
  const Tokenizer& tokenizer = DemoTokenizer();
  GrammarCache cache(&tokenizer);
  std::mt19937_64 rng(5);
  for (std::string line; std::getline(std::cin, line);) {
    std::string where;
    const auto grammar = cache.Get(JsonFormat(line), &where);
    if (!grammar.ok()) {
      std::cout << ReplyFormat::Json{{"error", grammar.status().message()}}.dump() << "\n";
      continue;
    }
    Constraint constraint(*grammar, /*in_thought=*/false);
    std::vector<TokenId> said;
    bool ended = false;
    while (!ended && said.size() < kMaxTokens) {
      const TokenMask& mask = **constraint.Mask();
      std::vector<TokenId> possible;
      for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
        if (mask.Has(id)) possible.push_back(id);
      }
      if (possible.empty()) break;  // never: the text is then no valid one
      TokenId token = possible[rng() % possible.size()];
      const TokenId end = tokenizer.end_of_generation().front();
      if (rng() % 3 == 0 && mask.Has(end)) token = end;
      if (!constraint.Advance(token)) return 1;
      ended = tokenizer.IsEndOfGeneration(token);
      if (!ended) said.push_back(token);
    }
    const bool cut = said.size() >= kMaxTokens;
    const ReplyFormat::Json out = {{"ended", ended || !cut},
                                   {"text", tokenizer.Decode(said, true)}};
    std::cout << out.dump() << "\n";
  }
}
