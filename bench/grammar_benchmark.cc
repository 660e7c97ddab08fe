// How long it takes to say which tokens of a large vocabulary may come next. Over a made-up
// vocabulary of 248,320 tokens whose lengths and beginnings are like those of real ones: words with
// and without a space in front, digits, punctuation, pieces of JSON, text of other scripts.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "grammar/reply_format.h"
#include "grammar/token_grammar.h"
#include "token/byte_symbols.h"
#include "token/tokenizer.h"

namespace holdfast {
namespace {

constexpr size_t kVocabSize = 248'320;

std::string Symbols(std::string_view bytes) {
  std::string symbols;
  for (const char c : bytes) symbols += ByteSymbol(static_cast<uint8_t>(c));
  return symbols;
}

std::string RandomWord(std::mt19937* random) {
  static constexpr std::string_view kParts[] = {"a",  "e",  "in",  "on",  "er", "th",   "st", "ing",
                                                "re", "co", "pro", "ion", "al", "ment", "s",  "t"};
  std::string word = (*random)() % 2 == 0 ? " " : "";
  if ((*random)() % 12 == 0) {  // another script: characters of two and three bytes
    for (size_t n = 1 + (*random)() % 4; n > 0; --n) {
      const bool cyrillic = (*random)() % 2 == 0;
      word += cyrillic ? "\xd0" : "\xe4\xb8";
      word += static_cast<char>(cyrillic ? 0x90 + (*random)() % 48 : 0x80 + (*random)() % 64);
    }
    return word;
  }
  for (size_t n = 1 + (*random)() % 4; n > 0; --n) {
    word += kParts[(*random)() % std::size(kParts)];
    if ((*random)() % 3 == 0) word += static_cast<char>('a' + (*random)() % 26);
  }
  if ((*random)() % 20 == 0) word += (*random)() % 2 == 0 ? "\":" : "\",";
  return word;
}

const Tokenizer& LargeTokenizer() {
  static const Tokenizer* const tokenizer = [] {
    VocabularyData data{.pre = "qwen35"};
    std::set<std::string> texts;
    const auto add = [&](std::string text, TokenType type) {
      if (!texts.insert(text).second) return;
      data.tokens.push_back(std::move(text));
      data.types.push_back(type);
    };
    for (int byte = 0; byte < 256; ++byte) {
      add(ByteSymbol(static_cast<uint8_t>(byte)), TokenType::kNormal);
    }
    for (int i = 0; i < 1000; ++i) add(Symbols(std::to_string(i)), TokenType::kNormal);
    for (const char* text : {"{\"", "\"}", "\":\"", "\",\"", "\": ", "\", \"", "[]", "{}", "\"]",
                             "}]", "\n\n", "    ", "\\n", "\\\"", "true", "false", "null"}) {
      add(Symbols(text), TokenType::kNormal);
    }
    std::mt19937 random(1);
    while (data.tokens.size() < kVocabSize - 1)
      add(Symbols(RandomWord(&random)), TokenType::kNormal);
    data.eos = static_cast<TokenId>(data.tokens.size());
    add("<|im_end|>", TokenType::kControl);
    Result<Tokenizer*> made = [&]() -> Result<Tokenizer*> {
      HF_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> t, Tokenizer::Create(std::move(data)));
      return t.release();
    }();
    HF_CHECK(made.ok());
    return *made;
  }();
  return *tokenizer;
}

std::shared_ptr<const TokenTrie> LargeTrie() {
  static const auto trie = std::make_shared<const TokenTrie>(&LargeTokenizer());
  return trie;
}

struct Case {
  const char* name;
  const char* schema;
  const char* text;  // a reply of this schema
};
constexpr Case kCases[] = {
    {"strings", R"({"properties":{"name":{"type":"string"},"note":{"type":"string"}},
                    "required":["name","note"]})",
     R"({"name":"ting on the real ment","note":"a reason, proning in the coment; \"stal\" again"})"},
    {"bounded", R"({"properties":{"name":{"type":"string","maxLength":40},
                    "code":{"type":"string","pattern":"^[A-Z]{2}-[0-9]{4}$"}},
                    "required":["name","code"]})",
     R"({"name":"ting on the real ment","code":"AB-1234"})"},
    {"nested", R"({"$defs":{"item":{"properties":{"id":{"type":"integer","minimum":0},
                    "kind":{"enum":["red","green","blue"]},
                    "children":{"type":"array","items":{"$ref":"#/$defs/item"}}},
                    "required":["id","kind","children"]}},"$ref":"#/$defs/item"})",
     R"({"id":12,"kind":"red","children":[{"id":345,"kind":"blue","children":[]}]})"},
    {"any", R"({"type":"object"})", R"({"a":[1,2.5e3,{"b":null}],"the ment":"ing"})"},
};

std::shared_ptr<TokenGrammar> Compiled(const Case& c) {
  std::string where;
  Result<Grammar> grammar = CompileFormat({.text = ReplyFormat::Text::kJson,
                                           .schema = ReplyFormat::Json::parse(c.schema),
                                           .schema_where = "schema"},
                                          &where);
  HF_CHECK(grammar.ok());
  return std::make_shared<TokenGrammar>(*std::move(grammar), LargeTrie());
}

// Of this thread: other programs' work does not count.
double CpuSeconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// What has been done before a reply: nothing, what is worked out ahead, or another reply.
enum class Known { kNothing, kPrepared, kUsed };

// A whole reply by a grammar. The longest of its masks, in CPU time, is what a step of other
// replies can be held up by.
void Masks(benchmark::State& state, const Case& c, Known known) {
  const bool used = known == Known::kUsed;
  const std::vector<TokenId> tokens = LargeTokenizer().Encode(c.text, AddedTokens::kNone);
  auto grammar = Compiled(c);
  double longest_s = 0;
  const auto reply = [&] {
    Constraint constraint(grammar, /*in_thought=*/false);
    for (const TokenId token : tokens) {
      // The clock takes longer than a mask that is known.
      const double begin_s = used ? 0 : CpuSeconds();
      benchmark::DoNotOptimize(constraint.Mask());
      if (!used) longest_s = std::max(longest_s, CpuSeconds() - begin_s);
      HF_CHECK(constraint.Advance(token));
    }
  };
  double prepare_s = 0;
  if (used) reply();
  for (auto _ : state) {
    if (!used) {
      state.PauseTiming();
      grammar = Compiled(c);
      const double begin_s = CpuSeconds();
      if (known == Known::kPrepared) grammar->Prepare(std::chrono::minutes(1));
      prepare_s = std::max(prepare_s, CpuSeconds() - begin_s);
      state.ResumeTiming();
    }
    reply();
  }
  state.counters["tokens"] = static_cast<double>(tokens.size());
  if (!used) state.counters["longest_mask_us"] = 1e6 * longest_s;
  if (known == Known::kPrepared) state.counters["prepare_ms"] = 1e3 * prepare_s;
  state.counters["MiB"] = static_cast<double>(grammar->bytes()) / (1 << 20);
}

void Trie(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(TokenTrie(&LargeTokenizer()).nodes().size());
}

}  // namespace
}  // namespace holdfast

int main(int argc, char** argv) {
  using holdfast::Masks;
  benchmark::RegisterBenchmark("trie", holdfast::Trie)->Unit(benchmark::kMillisecond);
  for (const auto& c : holdfast::kCases) {
    for (const auto& [name, known] : {std::pair("first", holdfast::Known::kNothing),
                                      {"prepared", holdfast::Known::kPrepared},
                                      {"later", holdfast::Known::kUsed}}) {
      benchmark::RegisterBenchmark(fmt::format("{}/{}", c.name, name).c_str(),
                                   [&c, known = known](benchmark::State& s) { Masks(s, c, known); })
          ->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
