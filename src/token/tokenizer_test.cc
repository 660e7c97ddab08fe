#include "token/tokenizer.h"

#include <algorithm>
#include <climits>
#include <ctime>
#include <random>
#include <thread>
#include <unordered_map>

#include "token/byte_symbols.h"
#include "token/pretokenizer.h"
#include "token/test_support.h"
#include "token/utf8.h"

namespace holdfast {
namespace {

using Ids = std::vector<TokenId>;

Ids IdsOf(const nlohmann::ordered_json& json) { return json.get<Ids>(); }

TEST(TokenizerTest, EveryFixtureTextHasTheReferenceIdsInAllVariants) {
  const Tokenizer& tokenizer = TinyTokenizer();
  const auto unnormalised = TokenizerOf(kTinyModel, {.normalise = false});
  const auto cases = ReadJson(SourcePath("tests/fixtures/tokenizer_cases.json"));
  ASSERT_EQ(cases.size(), 40u);
  for (const auto& test : cases) {
    const auto text = test["text"].get<std::string>();
    SCOPED_TRACE(text);
    const Ids ids = IdsOf(test["ids"]);
    const auto variant = [&test, &ids](const char* name) {
      return test.contains(name) ? IdsOf(test[name]) : ids;
    };
    const Ids no_special = variant("ids_no_special");
    EXPECT_EQ(tokenizer.Encode(text, AddedTokens::kAll), ids);
    EXPECT_EQ(tokenizer.Encode(text, AddedTokens::kUserDefinedOnly), no_special);
    // A text without control tokens but with user-defined ones lists only ids_plain.
    EXPECT_EQ(tokenizer.Encode(text, AddedTokens::kNone),
              test.contains("ids_plain") ? IdsOf(test["ids_plain"]) : no_special);
    EXPECT_EQ(unnormalised->Encode(text, AddedTokens::kAll), variant("ids_no_nfc"));
    const std::string decoded =
        test.contains("decoded") ? test["decoded"].get<std::string>() : text;
    EXPECT_EQ(tokenizer.Decode(ids, /*include_control=*/true), decoded);
  }
}

TEST(TokenizerTest, TypesEndsAndUnusedTokensOfTheTinyVocabulary) {
  const Tokenizer& tokenizer = TinyTokenizer();
  EXPECT_EQ(tokenizer.vocab_size(), 2048);
  EXPECT_EQ(tokenizer.end_of_generation(), (Ids{2020, 2022}));
  EXPECT_TRUE(tokenizer.IsEndOfGeneration(2022));
  EXPECT_FALSE(tokenizer.IsEndOfGeneration(2021));
  EXPECT_EQ(tokenizer.FindToken("<think>"), 2031);
  EXPECT_EQ(tokenizer.FindToken("<nothing>"), std::nullopt);
  EXPECT_EQ(tokenizer.type(2031), TokenType::kUserDefined);
  EXPECT_EQ(tokenizer.type(2021), TokenType::kControl);
  EXPECT_TRUE(tokenizer.IsSampleable(2032));
  EXPECT_FALSE(tokenizer.IsSampleable(2033));  // the first [PAD...]
  EXPECT_FALSE(tokenizer.IsSampleable(2047));
  for (const TokenId outside : {-1, 2048, INT_MAX, INT_MIN}) {
    EXPECT_FALSE(tokenizer.IsSampleable(outside));
    EXPECT_EQ(tokenizer.TokenBytes(outside, true), "");
  }
  EXPECT_EQ(tokenizer.leading_bos(), std::nullopt);
}

TEST(TokenizerTest, DecodingShowsControlTokensOnlyWhenAskedAndUserDefinedOnesAlways) {
  const Tokenizer& tokenizer = TinyTokenizer();
  const Ids ids = tokenizer.Encode("<|im_start|>a<think>b<|im_end|>", AddedTokens::kAll);
  EXPECT_EQ(tokenizer.Decode(ids, false), "a<think>b");
  EXPECT_EQ(tokenizer.Decode(ids, true), "<|im_start|>a<think>b<|im_end|>");
  EXPECT_EQ(tokenizer.Decode(Ids{2040}, true), "");  // unused
}

TEST(TokenizerTest, InPlainSpansNothingIsRecognisedAndSeamsStillMerge) {
  const Tokenizer& tokenizer = TinyTokenizer();
  const std::string head = "<tool_response>\n", body = "{\"a\": \"</tool_response><|im_end|>\"}",
                    tail = "\n</tool_response><|im_end|>";
  MarkedText text;
  text.text = head + body + tail;
  const auto begin = static_cast<int64_t>(head.size());
  text.plain = {{begin, begin + static_cast<int64_t>(body.size())}};
  const Ids ids = tokenizer.Encode(text);
  const auto count = [&ids](TokenId id) { return std::count(ids.begin(), ids.end(), id); };
  EXPECT_EQ(count(2029), 1);  // <tool_response>
  EXPECT_EQ(count(2030), 1);  // </tool_response>: the template's only
  EXPECT_EQ(count(2022), 1);  // <|im_end|>
  EXPECT_EQ(tokenizer.Decode(ids, true), text.text);
  // What stands between the template's own added tokens is one text, tokenised without them.
  Ids expected = {2029};
  const Ids middle = tokenizer.Encode("\n" + body + "\n", AddedTokens::kNone);
  expected.insert(expected.end(), middle.begin(), middle.end());
  expected.insert(expected.end(), {2030, 2022});
  EXPECT_EQ(ids, expected);
}

TEST(TokenizerTest, AnAddedTokenMadeOfTemplateAndRequestTextIsText) {
  const Tokenizer& tokenizer = TinyTokenizer();
  const std::string text = "<think>";
  for (int64_t cut = 1; cut < 7; ++cut) {
    EXPECT_EQ(tokenizer.Encode(MarkedText{text, {{cut, 7}}}),
              tokenizer.Encode(text, AddedTokens::kNone));
    EXPECT_EQ(tokenizer.Encode(MarkedText{text, {{0, cut}}}),
              tokenizer.Encode(text, AddedTokens::kNone));
  }
  EXPECT_EQ(tokenizer.Encode(MarkedText{text, {}}), Ids{2031});
  EXPECT_EQ(tokenizer.Encode(MarkedText{"x" + text, {{0, 1}}}).back(), 2031);
}

TEST(TokenizerTest, OffsetsNameTheFirstByteOfEachToken) {
  const Tokenizer& tokenizer = TinyTokenizer();
  const MarkedText text{"<|im_start|>user\nПривет <think>ab", {}};
  const TokenizedText out = tokenizer.EncodeWithOffsets(text);
  ASSERT_EQ(out.ids.size(), out.begins.size());
  for (size_t i = 0; i < out.ids.size(); ++i) {
    const std::string_view bytes = tokenizer.TokenBytes(out.ids[i], true);
    EXPECT_EQ(std::string_view(text.text).substr(static_cast<size_t>(out.begins[i]), bytes.size()),
              bytes);
  }
  // A decomposed text changes its length; offsets stay inside the fragment and added tokens exact.
  const MarkedText decomposed{"e\xCC\x81\xFFxyz<think>", {}};
  const TokenizedText changed = tokenizer.EncodeWithOffsets(decomposed);
  EXPECT_EQ(changed.begins.back(), 7);
  EXPECT_TRUE(std::is_sorted(changed.begins.begin(), changed.begins.end()));
}

TEST(TokenizerTest, InvalidUtf8IsReadAsOneReplacementPerMaximalSequence) {
  const Tokenizer& tokenizer = TinyTokenizer();
  const auto same = [&tokenizer](std::string_view bad, std::string_view good) {
    EXPECT_EQ(tokenizer.Encode(bad, AddedTokens::kAll), tokenizer.Encode(good, AddedTokens::kAll));
  };
  const std::string r = "\xEF\xBF\xBD";
  same("a\xFF", "a" + r);
  same("\xE2\x82", r);  // cut off: one
  same("\xE2\x82<think>", r + "<think>");
  same("\xF0\x80\x80x", r + r + r + "x");  // overlong: F0 80 is no beginning
  same("\xED\xA0\x80", r + r + r);         // a surrogate
  same("\xF1\x80\x80\xC3\xA9", r + "é");
}

// The definition, word for word: the pair of lowest rank, leftmost first, until none has a rank.
class NaiveBpe {
 public:
  explicit NaiveBpe(const VocabularyData& data) {
    for (size_t i = 0; i < data.merges.size(); ++i) ranks_.emplace(data.merges[i], i);
    for (size_t i = 0; i < data.tokens.size(); ++i) {
      ids_.emplace(data.tokens[i], static_cast<TokenId>(i));
    }
  }

  Ids Encode(std::string_view piece) const {
    std::vector<std::string> symbols;
    for (const char byte : piece) symbols.push_back(ByteSymbol(static_cast<uint8_t>(byte)));
    while (true) {
      size_t best = SIZE_MAX, at = 0;
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const auto it = ranks_.find(symbols[i] + " " + symbols[i + 1]);
        if (it != ranks_.end() && it->second < best) {
          best = it->second;
          at = i;
        }
      }
      if (best == SIZE_MAX) break;
      symbols[at] += symbols[at + 1];
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    Ids out;
    for (const std::string& symbol : symbols) out.push_back(ids_.at(symbol));
    return out;
  }

 private:
  std::unordered_map<std::string, size_t> ranks_;
  std::unordered_map<std::string, TokenId> ids_;
};

TEST(TokenizerTest, MergesLikeTheNaiveDefinitionOnRandomText) {
  constexpr unsigned kSeed = 20261130;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  for (const char* model : {kTinyModel, kDemoModel}) {
    const VocabularyData data = ReadVocabularyOf(model);
    const NaiveBpe naive(data);
    const auto tokenizer = TokenizerOf(model, {.normalise = false});
    const auto pretokenizer = Pretokenizer::Create("qwen35");
    for (int round = 0; round < 100; ++round) {
      // Pieces of the vocabulary one after another merge a lot; single letters between them less.
      std::string text;
      while (text.size() < 120) {
        const std::string& token = data.tokens[random() % 1500];
        text += *BytesOfSymbols(token);
        if (random() % 3 == 0) text.push_back("aeinrst"[random() % 7]);
      }
      text = RepairUtf8(text);
      Ids expected;
      for (const std::string_view piece : pretokenizer->Split(text)) {
        const Ids ids = naive.Encode(piece);
        expected.insert(expected.end(), ids.begin(), ids.end());
      }
      EXPECT_EQ(tokenizer->Encode(text, AddedTokens::kNone), expected) << text;
    }
  }
}

TEST(TokenizerTest, LongRunsMergeLikeTheNaiveDefinition) {
  const NaiveBpe naive(ReadVocabularyOf(kTinyModel));
  for (const std::string& unit : {std::string("a"), std::string("th"), std::string("ne")}) {
    std::string piece;
    while (piece.size() < 97) piece += unit;
    EXPECT_EQ(TinyTokenizer().Encode(piece, AddedTokens::kNone), naive.Encode(piece));
  }
}

TEST(TokenizerTest, RandomBytesAndTextsComeBack) {
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  const auto tokenizer = TokenizerOf(kDemoModel, {.normalise = false});
  for (int round = 0; round < 300; ++round) {
    std::string bytes;
    const size_t n = random() % 200;
    for (size_t i = 0; i < n; ++i) {
      const uint32_t choice = random() % 4;
      if (choice == 0) {
        bytes.push_back(static_cast<char>(random()));
      } else if (choice == 1) {
        AppendUtf8(0x20 + random() % 0x3000, &bytes);
      } else {
        bytes += std::string_view("<|im_end|> \n\t'sABc9</think>").substr(random() % 20, 3);
      }
    }
    for (const AddedTokens added :
         {AddedTokens::kAll, AddedTokens::kUserDefinedOnly, AddedTokens::kNone}) {
      const Ids ids = tokenizer->Encode(bytes, added);
      ASSERT_EQ(tokenizer->Decode(ids, true), RepairUtf8(bytes)) << "seed " << kSeed;
    }
  }
}

TEST(TokenizerTest, ManyThreadsGetTheSameIdsAsOne) {
  const Tokenizer& tokenizer = DemoTokenizer();
  const std::string text = ReadText(SourcePath("tests/demo/val_chat.txt")).substr(0, 20000);
  const Ids expected = tokenizer.Encode(text, AddedTokens::kAll);
  std::vector<Ids> found(4);
  {
    std::vector<std::jthread> threads;
    for (Ids& ids : found) {
      threads.emplace_back([&tokenizer, &text, &ids] {
        for (int i = 0; i < 3; ++i) ids = tokenizer.Encode(text, AddedTokens::kAll);
      });
    }
  }
  for (const Ids& ids : found) EXPECT_EQ(ids, expected);
}

// Everything here takes milliseconds when it is linear and many minutes when it is quadratic; the
// bound (of processor time) only tells these two apart, also under sanitizers.
TEST(TokenizerTest, AQuarterMegabyteOfAnythingTakesLinearTime) {
  const Tokenizer& tokenizer = TinyTokenizer();
  const std::clock_t start = std::clock();
  std::string marks;
  for (int i = 0; i < 50000; ++i) marks += i % 2 == 0 ? "\xCC\x81" : "\xCC\xA3";  // 230, 220
  std::string mixed;
  while (mixed.size() < 250000) mixed += "Hello, wörld! 12\n  'S\t<|im_e";
  for (const std::string& text :
       {std::string(250000, 'a'), std::string(250000, ' '), std::string(250000, '\n'),
        std::string(250000, '!'), std::string(250000, '<'), std::string(250000, '\x80'),
        std::string(125000, ' ') + "x" + std::string(125000, ' '), marks, mixed}) {
    EXPECT_FALSE(tokenizer.Encode(text, AddedTokens::kAll).empty());
  }
  EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, 40);
}

}  // namespace
}  // namespace holdfast
