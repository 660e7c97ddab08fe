#include "grammar/token_grammar.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "grammar/grammar_cache.h"
#include "grammar/test_support.h"
#include "tests/support/slow_build.h"

namespace holdfast {
namespace {

std::shared_ptr<const TokenTrie> DemoTrie() {
  static const auto trie = std::make_shared<const TokenTrie>(&DemoTokenizer());
  return trie;
}

std::shared_ptr<TokenGrammar> Compiled(const ReplyFormat& format) {
  std::string where;
  Result<Grammar> grammar = CompileFormat(format, &where);
  EXPECT_TRUE(grammar.ok()) << grammar.status().ToString();
  return std::make_shared<TokenGrammar>(*std::move(grammar), DemoTrie());
}

ReplyFormat CallFormat(ReplyFormat::Calls calls, std::string_view schema) {
  return {.text = ReplyFormat::Text::kNone,
          .calls = calls,
          .tools = {{.name = "f", .where = "tool", .parameters = ReplyFormat::Json::parse(schema)},
                    {.name = "no_parameters", .where = "tool2", .parameters = nullptr}}};
}

std::vector<ReplyFormat> Formats() {
  return {
      JsonFormat(R"({"type":"object"})"),
      JsonFormat(R"({"properties":{"name":{"type":"string"},"n":{"type":"integer","minimum":3},
                    "tags":{"items":{"enum":["red","green","blue"]},"maxItems":4},
                    "child":{"$ref":"#"}},"required":["name","tags"]})"),
      JsonFormat(R"({"type":"string","minLength":3,"maxLength":12})"),
      JsonFormat(R"({"items":{"pattern":"^[a-z]+( [A-Z]\\w*)?$"},"minItems":1})"),
      JsonFormat(R"({"anyOf":[{"type":"string","pattern":"e"},{"type":"string","maxLength":2},
                    {"properties":{"a":{"type":"null"}},"additionalProperties":{"type":"number"}}]})"),
      CallFormat(ReplyFormat::Calls::kSeveral,
                 R"({"type":"object","properties":{"text":{"type":"string"},"n":{"type":"integer"},
                     "either":{"type":["string","null"]},"list":{"type":"array"}},
                     "required":["text","either"]})"),
      CallFormat(
          ReplyFormat::Calls::kOne,
          R"({"properties":{"s":{"type":"string","maxLength":9},"e":{"enum":["x","y z"]}}})"),
  };
}

// What may follow `tokens`, from the definition: every token of the vocabulary is tried.
TokenMask BruteForce(const ReplyFormat& format, const std::vector<TokenId>& tokens) {
  std::string where;
  const Grammar grammar = *CompileFormat(format, &where);
  GrammarMachine machine(&grammar);
  auto position = machine.Start(grammar.root);
  const auto after = [&](GrammarMachine::Position from, TokenId token) {
    const std::vector<Symbol> symbols = DemoTrie()->SymbolsOf(token);
    if (symbols.empty()) return GrammarMachine::kNowhere;
    for (const Symbol symbol : symbols) from = machine.Step(from, symbol);
    return from;
  };
  for (const TokenId token : tokens) position = after(position, token);
  TokenMask mask(DemoTokenizer().vocab_size());
  for (TokenId id = 0; id < DemoTokenizer().vocab_size(); ++id) {
    const bool fits = DemoTokenizer().IsEndOfGeneration(id)
                          ? machine.complete(position)
                          : after(position, id) != GrammarMachine::kNowhere;
    if (fits) mask.Add(id);
  }
  return mask;
}

// A token of the mask: mostly a common one, so that texts get long, sometimes a long one.
TokenId Pick(const TokenMask& mask, std::mt19937_64& rng) {
  std::vector<TokenId> all;
  for (TokenId id = 0; id < DemoTokenizer().vocab_size(); ++id) {
    if (mask.Has(id)) all.push_back(id);
  }
  return all.empty() ? -1 : all[rng() % all.size()];
}

TEST(TokenGrammarTest, MasksHoldExactlyTheTokensThatCanFollow) {
  std::mt19937_64 rng(20261130);
  for (const ReplyFormat& format : Formats()) {
    const auto grammar = Compiled(format);
    const int n_runs = kSlowBuild && !CheckAll() ? 1 : 6;
    for (int run = 0; run < n_runs; ++run) {
      Constraint constraint(grammar, /*in_thought=*/false);
      std::vector<TokenId> tokens;
      for (int i = 0; i < 25; ++i) {
        const Result<const TokenMask*> mask = constraint.Mask();
        ASSERT_TRUE(mask.ok());
        ASSERT_EQ(**mask, BruteForce(format, tokens))
            << format.Key() << " behind " << DemoTokenizer().Decode(tokens, true);
        const TokenId token = Pick(**mask, rng);
        ASSERT_GE(token, 0) << "a dead end behind " << DemoTokenizer().Decode(tokens, true);
        ASSERT_TRUE(constraint.Advance(token));
        if (DemoTokenizer().IsEndOfGeneration(token)) break;
        tokens.push_back(token);
      }
    }
  }
}

TEST(TokenGrammarTest, ATokenOutsideTheMaskIsNoticed) {
  const auto grammar = Compiled(JsonFormat(R"({"type":"object"})"));
  Constraint constraint(grammar, /*in_thought=*/false);
  const TokenId bracket = DemoTokenizer().Encode("[", AddedTokens::kNone).front();
  EXPECT_FALSE((*constraint.Mask())->Has(bracket));
  EXPECT_FALSE(constraint.Advance(bracket));
  EXPECT_FALSE(constraint.Mask().ok());
}

TEST(TokenGrammarTest, TheEndIsAllowedExactlyWhenTheValueIsComplete) {
  const auto grammar = Compiled(JsonFormat(R"({"type":"integer"})"));
  Constraint constraint(grammar, /*in_thought=*/false);
  const TokenId end = *DemoTokenizer().FindToken("<|im_end|>");
  EXPECT_FALSE((*constraint.Mask())->Has(end));
  for (const TokenId id : DemoTokenizer().Encode("-1", AddedTokens::kNone)) {
    ASSERT_TRUE(constraint.Advance(id));
  }
  EXPECT_TRUE((*constraint.Mask())->Has(end));
  EXPECT_TRUE(constraint.Advance(end));
  // Who goes on behind an end token (ignore_eos) finds the text where it was.
  EXPECT_TRUE((*constraint.Mask())->Has(end));
}

TEST(TokenGrammarTest, AThoughtIsFreeAndTheGrammarBeginsBehindIt) {
  const auto grammar = Compiled(JsonFormat(R"({"type":"null"})"));
  Constraint constraint(grammar, /*in_thought=*/true);
  const TokenId end = *DemoTokenizer().FindToken("<|im_end|>");
  const TokenId think_end = *DemoTokenizer().FindToken("</think>");
  const TokenId call = *DemoTokenizer().FindToken("<tool_call>");
  const TokenId word = DemoTokenizer().Encode("hello", AddedTokens::kNone).front();
  EXPECT_TRUE((*constraint.Mask())->Has(word));
  EXPECT_TRUE((*constraint.Mask())->Has(think_end));
  EXPECT_FALSE((*constraint.Mask())->Has(end));
  EXPECT_FALSE((*constraint.Mask())->Has(call));
  EXPECT_TRUE(constraint.Advance(word));
  EXPECT_TRUE(constraint.Advance(think_end));
  EXPECT_FALSE(constraint.in_thought());
  EXPECT_FALSE((*constraint.Mask())->Has(word));
  EXPECT_FALSE((*constraint.Mask())->Has(think_end));
  for (const TokenId id : DemoTokenizer().Encode("\n\nnull", AddedTokens::kNone)) {
    ASSERT_TRUE(constraint.Advance(id));
  }
  EXPECT_TRUE((*constraint.Mask())->Has(end));
}

TEST(TokenGrammarTest, WhatIsForgottenIsWorkedOutAgain) {
  // Each of these strings has a length of its own at every token, so that masks are given up.
  const auto grammar = Compiled(JsonFormat(R"({"type":"string","maxLength":100000})"));
  Constraint constraint(grammar, /*in_thought=*/false);
  const std::vector<TokenId> quote = DemoTokenizer().Encode("\"", AddedTokens::kNone);
  const TokenId x = DemoTokenizer().Encode("x", AddedTokens::kNone).front();
  ASSERT_TRUE(constraint.Advance(quote.front()));
  const TokenMask first = **constraint.Mask();
  for (int i = 0; i < 1500; ++i) {
    ASSERT_TRUE(constraint.Advance(x));
    const Result<const TokenMask*> mask = constraint.Mask();
    ASSERT_TRUE(mask.ok());
    ASSERT_EQ(**mask, first);
  }
  EXPECT_LT(grammar->bytes(), 64 << 20);
}

TEST(TokenGrammarTest, ManyTokensFollowQuickly) {
  const auto grammar = Compiled(Formats()[1]);
  std::mt19937_64 rng(7);
  const auto start = std::chrono::steady_clock::now();
  double slowest = 0;
  int n = 0;
  for (int run = 0; run < 20; ++run) {
    Constraint constraint(grammar, /*in_thought=*/false);
    for (int i = 0; i < 60; ++i, ++n) {
      const auto before = std::chrono::steady_clock::now();
      const Result<const TokenMask*> mask = constraint.Mask();
      ASSERT_TRUE(mask.ok());
      slowest = std::max(slowest, std::chrono::duration<double, std::milli>(
                                      std::chrono::steady_clock::now() - before)
                                      .count());
      const TokenId token = Pick(**mask, rng);
      if (DemoTokenizer().IsEndOfGeneration(token)) break;
      ASSERT_TRUE(constraint.Advance(token));
    }
  }
  fmt::print(
      "{} masks of {} tokens: {:.3f} ms each, the slowest {:.3f} ms\n", n,
      DemoTokenizer().vocab_size(),
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() /
          n,
      slowest);
}

TEST(GrammarCacheTest, TheSameFormatIsCompiledOnce) {
  GrammarCache cache(&DemoTokenizer());
  std::string where;
  const auto a = *cache.Get(JsonFormat(R"({"type":"integer"})"), &where);
  const auto b = *cache.Get(JsonFormat(R"({"type":"number"})"), &where);
  EXPECT_EQ(*cache.Get(JsonFormat(R"({"type":"integer"})"), &where), a);
  EXPECT_NE(a, b);
  for (size_t i = 0; i < GrammarCache::kMaxGrammars; ++i) {
    ASSERT_TRUE(cache.Get(JsonFormat(fmt::format(R"({{"const":{}}})", i)), &where).ok());
  }
  EXPECT_NE(*cache.Get(JsonFormat(R"({"type":"integer"})"), &where), a);  // given up long ago
  const auto bad = cache.Get(JsonFormat(R"({"not":{}})"), &where);
  EXPECT_EQ(bad.status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(where, "schema.not");
  const std::string large(kMaxFormatBytes, 'x');
  EXPECT_EQ(cache.Get(JsonFormat(R"({"const":")" + large + "\"}"), &where).status().code(),
            StatusCode::kOutOfRange);
  EXPECT_EQ(where, "schema");
}

// Guesses are counted up to the first that a mask would not have had, with nothing changed by it.
TEST(TokenGrammarTest, CountsAsManyGuessesAsMayCome) {
  const Tokenizer& tokenizer = DemoTokenizer();
  const auto grammar =
      Compiled(JsonFormat(R"({"properties":{"n":{"type":"integer"}},"required":["n"],
                                               "additionalProperties":false})"));
  const std::vector<TokenId> right = tokenizer.Encode(R"({"n":12})", AddedTokens::kNone);
  const std::vector<TokenId> wrong = tokenizer.Encode(R"({"n":"x"})", AddedTokens::kNone);
  const TokenId end = tokenizer.end_of_generation().front();
  Constraint constraint(grammar, /*in_thought=*/false);
  EXPECT_EQ(constraint.CountAllowed({}), 0);
  EXPECT_EQ(constraint.CountAllowed(right), std::ssize(right));
  int64_t n_right = 0;
  {
    Constraint walked(grammar, /*in_thought=*/false);
    while ((*walked.Mask())->Has(wrong[n_right]) && walked.Advance(wrong[n_right])) ++n_right;
  }
  EXPECT_GT(n_right, 0);
  EXPECT_EQ(constraint.CountAllowed(wrong), n_right);
  std::vector<TokenId> ended = right;
  ended.push_back(end);
  ended.push_back(right.front());
  EXPECT_EQ(constraint.CountAllowed(ended), std::ssize(right) + 1);
  EXPECT_EQ(constraint.CountAllowed(std::vector<TokenId>{end}), 0);
  for (const TokenId token : right) {
    ASSERT_TRUE((*constraint.Mask())->Has(token));
    ASSERT_TRUE(constraint.Advance(token));
  }
  EXPECT_EQ(constraint.CountAllowed(std::vector<TokenId>{end}), 1);
  EXPECT_EQ(constraint.CountAllowed(right), 0);
}

TEST(TokenGrammarTest, GuessesMayLeaveTheThought) {
  const Tokenizer& tokenizer = DemoTokenizer();
  const auto grammar = Compiled(JsonFormat(R"({"type":"object"})"));
  Constraint constraint(grammar, /*in_thought=*/true);
  std::vector<TokenId> tokens = tokenizer.Encode("Well", AddedTokens::kNone);
  const auto n_thought = std::ssize(tokens) + 1;
  tokens.push_back(*DemoTrie()->think_end());
  for (const TokenId token : tokenizer.Encode("\n\n{}", AddedTokens::kNone))
    tokens.push_back(token);
  EXPECT_EQ(constraint.CountAllowed(tokens), std::ssize(tokens));
  tokens[static_cast<size_t>(n_thought)] = tokenizer.Encode("x", AddedTokens::kNone).front();
  EXPECT_EQ(constraint.CountAllowed(tokens), n_thought);
  EXPECT_TRUE(constraint.in_thought());
}

TEST(TokenGrammarTest, WhatIsWorkedOutAheadChangesNoMask) {
  std::mt19937_64 rng(11);
  for (const ReplyFormat& format : Formats()) {
    const auto prepared = Compiled(format), fresh = Compiled(format);
    const int64_t before = prepared->bytes();
    prepared->Prepare(std::chrono::minutes(1));
    EXPECT_GT(prepared->bytes(), before);
    const int64_t after = prepared->bytes();
    prepared->Prepare(std::chrono::minutes(1));
    EXPECT_EQ(prepared->bytes(), after) << "nothing is worked out twice";
    Constraint one(prepared, /*in_thought=*/false), other(fresh, /*in_thought=*/false);
    for (int i = 0; i < 40; ++i) {
      const TokenMask& mask = **one.Mask();
      ASSERT_EQ(mask, **other.Mask()) << "after " << i << " tokens";
      std::vector<TokenId> possible;
      for (TokenId id = 0; id < DemoTokenizer().vocab_size(); ++id) {
        if (mask.Has(id) && !DemoTokenizer().IsEndOfGeneration(id)) possible.push_back(id);
      }
      if (possible.empty()) break;
      const TokenId token = possible[rng() % possible.size()];
      ASSERT_TRUE(one.Advance(token));
      ASSERT_TRUE(other.Advance(token));
    }
  }
}

}  // namespace
}  // namespace holdfast
