#include "token/reply_parser.h"

#include <algorithm>
#include <random>

#include "token/test_support.h"
#include "token/tool_schema.h"
#include "token/utf8.h"

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ReplyEvent::Kind;

// A reply put back together from its events.
struct Reply {
  struct Call {
    std::string id, name, arguments;
    bool ended = false, complete = false;
  };
  std::string reasoning, content;
  std::vector<Call> calls;
};

void Collect(const std::vector<ReplyEvent>& events, Reply* reply) {
  for (const ReplyEvent& event : events) {
    EXPECT_TRUE(IsValidUtf8(event.text));
    switch (event.kind) {
      case Kind::kReasoning:
        reply->reasoning += event.text;
        break;
      case Kind::kContent:
        reply->content += event.text;
        break;
      case Kind::kToolCallBegin:
        EXPECT_EQ(event.index, static_cast<int>(reply->calls.size()));
        reply->calls.push_back({event.id, event.name, "", false, false});
        break;
      case Kind::kToolCallArguments:
        ASSERT_EQ(event.index + 1, static_cast<int>(reply->calls.size()));
        EXPECT_FALSE(event.text.empty());
        reply->calls.back().arguments += event.text;
        break;
      case Kind::kToolCallEnd:
        ASSERT_EQ(event.index + 1, static_cast<int>(reply->calls.size()));
        reply->calls.back().ended = true;
        reply->calls.back().complete = event.complete;
        break;
    }
  }
}

Json WeatherTools() {
  return Json::parse(R"([
    {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
     "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
                    "exact": {"type": "boolean"}, "note": {"type": ["string", "null"]},
                    "tags": {"type": "array"}, "unit": {"enum": ["C", "F"]},
                    "any": {"description": "anything"}}}}},
    {"name": "write", "input_schema": {"properties": {"text": {"type": "string"}, "path": {"type": "string"}}}}])");
}

struct Setup {
  bool starts_in_think = false;
  Json tools = WeatherTools();
};

Reply ParseIds(const std::vector<TokenId>& ids, const Setup& setup) {
  int n_ids = 0;
  ReplyParser parser(&TinyTokenizer(),
                     {.starts_in_think = setup.starts_in_think,
                      .tools = setup.tools,
                      .make_call_id = [&n_ids] { return "id" + std::to_string(n_ids++); }});
  Reply reply;
  for (const TokenId id : ids) Collect(parser.Push(id), &reply);
  Collect(parser.Finish(), &reply);
  EXPECT_EQ(parser.has_tool_calls(), !reply.calls.empty());
  for (const Reply::Call& call : reply.calls) {
    EXPECT_TRUE(call.ended);
    EXPECT_TRUE(Json::parse(call.arguments, nullptr, false).is_object()) << call.arguments;
  }
  return reply;
}

Reply ParseText(const std::string& text, const Setup& setup = {}) {
  return ParseIds(TinyTokenizer().Encode(text, AddedTokens::kAll), setup);
}

// The arguments of the one call of `inside`, between <tool_call> and </tool_call>.
std::string ArgumentsOf(const std::string& inside) {
  const Reply reply = ParseText("<tool_call>" + inside + "</tool_call>");
  EXPECT_EQ(reply.calls.size(), 1u) << inside;
  EXPECT_EQ(reply.content, "");
  if (reply.calls.empty()) return "";
  EXPECT_TRUE(reply.calls[0].complete);
  return reply.calls[0].name + " " + reply.calls[0].arguments;
}

TEST(ReplyParserTest, SplitsThinkingFromTheAnswer) {
  const Reply reply = ParseText("The user greets.\n\nI greet.\n</think>\n\nHello  there!\n\n",
                                {.starts_in_think = true});
  EXPECT_EQ(reply.reasoning, "The user greets.\n\nI greet.");
  EXPECT_EQ(reply.content, "Hello  there!\n\n");
  EXPECT_EQ(ParseText("Hello").content, "Hello");
  const Reply itself = ParseText("<think>\nhm\n</think>\n\nok<|im_end|>");
  EXPECT_EQ(itself.reasoning, "hm");
  EXPECT_EQ(itself.content, "ok");
  const Reply empty = ParseText("\n</think>\n\nyes", {.starts_in_think = true});
  EXPECT_EQ(empty.reasoning, "");
  EXPECT_EQ(empty.content, "yes");
}

TEST(ReplyParserTest, ThinkingCutByTheTokenLimitIsAllThinking) {
  const Reply reply = ParseText("I wonder ", {.starts_in_think = true});
  EXPECT_EQ(reply.reasoning, "I wonder");
  EXPECT_EQ(reply.content, "");
}

TEST(ReplyParserTest, MarkersInTheMiddleOfAnAnswerAreText) {
  EXPECT_EQ(ParseText("Use <think> and </think>.").content, "Use <think> and </think>.");
  EXPECT_EQ(ParseText("Write <tool_call> here</tool_call>", {.tools = Json()}).content,
            "Write <tool_call> here</tool_call>");
}

TEST(ReplyParserTest, ACallWithEveryTypeOfValue) {
  const Reply reply = ParseText(
      "Let me look.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nSão "
      "\"Paulo\"\n</parameter>\n"
      "<parameter=days>\n3\n</parameter>\n<parameter=exact>\nTrue\n</"
      "parameter>\n<parameter=note>\nnull\n"
      "</parameter>\n<parameter=tags>\n[1, "
      "\"b\"]\n</parameter>\n<parameter=unit>\n\nC\n\n</parameter>\n"
      "<parameter=any>\n1.50\n</parameter>\n</function>\n</tool_call>");
  EXPECT_EQ(reply.content, "Let me look.");
  ASSERT_EQ(reply.calls.size(), 1u);
  EXPECT_EQ(reply.calls[0].id, "id0");
  EXPECT_EQ(reply.calls[0].name, "get_weather");
  EXPECT_EQ(
      reply.calls[0].arguments,
      R"({"city": "São \"Paulo\"", "days": 3, "exact": true, "note": null, "tags": [1, "b"], )"
      R"("unit": "\nC\n", "any": 1.50})");
  EXPECT_TRUE(reply.calls[0].complete);
}

TEST(ReplyParserTest, SeveralCallsAndTextAfterThinking) {
  const Reply reply = ParseText(
      "plan\n</think>\n\n<tool_call>\n<function=write>\n</function>\n</tool_call>\n<tool_call>\n"
      "<function=write>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>\n",
      {.starts_in_think = true});
  EXPECT_EQ(reply.reasoning, "plan");
  EXPECT_EQ(reply.content, "");
  ASSERT_EQ(reply.calls.size(), 2u);
  EXPECT_EQ(reply.calls[0].arguments, "{}");
  EXPECT_EQ(reply.calls[1].id, "id1");
  EXPECT_EQ(reply.calls[1].arguments, R"({"path": "a"})");
}

TEST(ReplyParserTest, ACallInsideUnfinishedThinkingIsACall) {
  const Reply reply = ParseText("I call.\n<tool_call>\n<function=write>\n</function>\n</tool_call>",
                                {.starts_in_think = true});
  EXPECT_EQ(reply.reasoning, "I call.");
  EXPECT_EQ(reply.calls.size(), 1u);
}

TEST(ReplyParserTest, TheJsonFormIsUnderstood) {
  EXPECT_EQ(ArgumentsOf("\n{\"name\": \"f\", \"arguments\": {\"a\": [1, {\"b\": \"x\"}]}}\n"),
            R"(f {"a":[1,{"b":"x"}]})");
  EXPECT_EQ(ArgumentsOf(R"({"name": "f", "arguments": "{\"a\": 1}"})"), R"(f {"a":1})");
  EXPECT_EQ(ArgumentsOf(R"({"name": "f"})"), "f {}");
}

TEST(ReplyParserTest, SlipsAreForgiven) {
  const std::string wanted = R"(write {"text": "hi", "path": "p"})";
  // As it should be, without newlines, without closers of each kind, names without their '>'.
  EXPECT_EQ(
      ArgumentsOf("\n<function=write>\n<parameter=text>\nhi\n</parameter>\n<parameter=path>\np\n"
                  "</parameter>\n</function>\n"),
      wanted);
  EXPECT_EQ(
      ArgumentsOf("<function=write><parameter=text>hi</parameter><parameter=path>p</parameter>"
                  "</function>"),
      wanted);
  EXPECT_EQ(
      ArgumentsOf("\n<function=write>\n<parameter=text>\nhi\n<parameter=path>\np\n</parameter>\n"
                  "</function>\n"),
      wanted);
  EXPECT_EQ(
      ArgumentsOf("\n<function=write>\n<parameter=text>\nhi\n</parameter>\n<parameter=path>\np\n"
                  "</function>\n"),
      wanted);
  EXPECT_EQ(
      ArgumentsOf("\n<function=write>\n<parameter=text>\nhi\n</parameter>\n<parameter=path>\np\n"),
      wanted);
  EXPECT_EQ(
      ArgumentsOf("\n<function=write>\n<parameter=text>\nhi\n</parameter>\n<parameter=path>\np\n"
                  "</parameter>\n"),
      wanted);
  EXPECT_EQ(
      ArgumentsOf("\n<function=write\n<parameter=text\nhi\n</parameter>\n<parameter=path>\np\n"
                  "</parameter>\n</function>\n"),
      wanted);
  EXPECT_EQ(
      ArgumentsOf(" junk <function= write >\n<parameter=days>\nsoon\n</parameter>\n</function>\n"),
      R"(write {"days": "soon"})");
}

TEST(ReplyParserTest, AMissingEndOfACallEndsAtTheNextOne) {
  const Reply reply = ParseText(
      "<tool_call>\n<function=write>\n<parameter=path>\na\n</parameter>\n</function>\n"
      "<tool_call>\n<function=write>\n<parameter=path>\nb\n</parameter>\n</function>\n</"
      "tool_call>");
  ASSERT_EQ(reply.calls.size(), 2u);
  EXPECT_EQ(reply.calls[0].arguments, R"({"path": "a"})");
  EXPECT_EQ(reply.calls[1].arguments, R"({"path": "b"})");
}

TEST(ReplyParserTest, MarkersInsideValuesAreKept) {
  // Text that only looks like closers, other tags, think markers, and a whole call quoted.
  const std::string values[] = {
      "a </parameter> b",
      "if x < 3 and y > 4: </param\n<parameter=unknown>\n",
      "</function> is a closer",
      "line\n</function>\nmore",
      "<think>not thinking</think>",
      "the <tool_call> marker",
      "example:\n<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</"
      "tool_call>\nend",
      "<",
      "</",
      "\n\nspace  ",
      "",
  };
  for (const std::string& value : values) {
    const Reply reply =
        ParseText("<tool_call>\n<function=write>\n<parameter=text>\n" + value +
                  "\n</parameter>\n<parameter=path>\np\n</parameter>\n</function>\n</tool_call>");
    ASSERT_EQ(reply.calls.size(), 1u) << value;
    const Json arguments = Json::parse(reply.calls[0].arguments);
    EXPECT_EQ(arguments["text"], value);
    EXPECT_EQ(arguments["path"], "p");
  }
}

TEST(ReplyParserTest, StringsStreamWhileTheyAreGenerated) {
  const std::vector<TokenId> ids = TinyTokenizer().Encode(
      "<tool_call>\n<function=write>\n<parameter=text>\nOnce upon a time there was",
      AddedTokens::kAll);
  ReplyParser parser(&TinyTokenizer(), {.tools = WeatherTools()});
  Reply reply;
  for (const TokenId id : ids) Collect(parser.Push(id), &reply);
  ASSERT_EQ(reply.calls.size(), 1u);
  EXPECT_EQ(reply.calls[0].arguments, R"({"text": "Once upon a time there was)");
  EXPECT_EQ(reply.calls[0].id.size(), 29u);
}

TEST(ReplyParserTest, TextThatIsNoCallIsShownAndHalfACallIsNot) {
  EXPECT_EQ(ParseText("<tool_call>\nwhat?\n</tool_call>").content, "what?");
  EXPECT_EQ(ParseText("Hm.<tool_call>\n<func").content, "Hm.");
  EXPECT_EQ(ParseText("<tool_call>{\"name\": \"f\", \"arg").content, "");
  EXPECT_EQ(ParseText("a</tool_call>").content, "a");
  for (const std::string inside :
       {"<function=>\n<parameter=x>\n1\n</parameter>\n</function>", "{\"name\": \"\"}"}) {
    const Reply nameless = ParseText("<tool_call>\n" + inside + "\n</tool_call>");
    EXPECT_TRUE(nameless.calls.empty());
    EXPECT_EQ(nameless.content, inside);
  }
}

// However a reply is cut, the arguments so far are well-formed (checked in ParseIds), what is shown
// is a beginning of the whole, and no marker's beginning is shown.
TEST(ReplyParserTest, CutAnywhereGivesABeginningOfTheWholeReply) {
  const std::string text =
      "thinking\n</think>\n\nAnswer.\n\n<tool_call>\n<function=write>\n<parameter=text>\nx "
      "</parameter y\n"
      "z\n</parameter>\n<parameter=path>\n/tmp/é\n</parameter>\n</function>\n</"
      "tool_call>\n<tool_call>\n"
      "<function=get_weather>\n<parameter=days>\n12\n</parameter>\n</function>\n</tool_call>";
  const std::vector<TokenId> ids = TinyTokenizer().Encode(text, AddedTokens::kAll);
  const Reply whole = ParseIds(ids, {.starts_in_think = true});
  ASSERT_EQ(whole.calls.size(), 2u);
  const Json first = Json::parse(whole.calls[0].arguments);
  EXPECT_EQ(first, (Json{{"text", "x </parameter y\nz"}, {"path", "/tmp/é"}}));
  int n_incomplete = 0;
  for (size_t n = 0; n < ids.size(); ++n) {
    const Reply cut = ParseIds({ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n)},
                               {.starts_in_think = true});
    EXPECT_TRUE(whole.reasoning.starts_with(cut.reasoning));
    // The blank line before a call is layout only once the call has begun.
    const std::string content = cut.content.substr(0, cut.content.find_last_not_of('\n') + 1);
    EXPECT_TRUE(whole.content.starts_with(content)) << cut.content;
    ASSERT_LE(cut.calls.size(), 2u);
    for (size_t i = 0; i < cut.calls.size(); ++i) {
      EXPECT_EQ(cut.calls[i].name, whole.calls[i].name);
      n_incomplete += cut.calls[i].complete ? 0 : 1;
      const Json full = Json::parse(whole.calls[i].arguments);
      const Json part = Json::parse(cut.calls[i].arguments);
      for (const auto& [key, value] : part.items()) {
        ASSERT_TRUE(full.contains(key));
        if (!value.is_string()) {
          EXPECT_EQ(value, full[key]);
          continue;
        }
        // A character cut in the middle ends in U+FFFD.
        std::string start = value.get<std::string>();
        if (start.ends_with("\xEF\xBF\xBD")) start.resize(start.size() - 3);
        EXPECT_TRUE(full[key].get<std::string>().starts_with(start)) << start;
      }
    }
  }
  EXPECT_GT(n_incomplete, 10);
}

TEST(ReplyParserTest, RandomIdsNeverBreakIt) {
  constexpr unsigned kSeed = 5;
  std::mt19937 random(kSeed);
  const Tokenizer& tokenizer = TinyTokenizer();
  std::vector<std::vector<TokenId>> parts;
  for (const char* text : {"<function=write>", "<parameter=text>", "<parameter=days>",
                           "</parameter>", "</function>", "\n", "<", "{\"name\": \"f\"", "}", "é",
                           "<tool_call>", "</tool_call>", "<think>", "</think>", "x"}) {
    parts.push_back(tokenizer.Encode(text, AddedTokens::kAll));
  }
  for (int round = 0; round < 2000; ++round) {
    std::vector<TokenId> ids;
    const size_t n = random() % 30;
    for (size_t i = 0; i < n; ++i) {
      const auto& part = parts[random() % parts.size()];
      ids.insert(ids.end(), part.begin(), part.end());
      if (random() % 8 == 0) ids.push_back(static_cast<TokenId>(random() % 2100));
    }
    ParseIds(ids, {.starts_in_think = random() % 2 == 0});
    if (testing::Test::HasFailure()) FAIL() << "seed " << kSeed << " round " << round;
  }
}

// nlohmann-json reads a zero byte as the end of the text.
TEST(ArgumentJsonTest, AValueWithAZeroByteIsAString) {
  const std::string text("3\0\0O", 4);
  for (const ParameterType type : {ParameterType::kUnknown, ParameterType::kMixed,
                                   ParameterType::kJson, ParameterType::kString}) {
    EXPECT_EQ(ArgumentJson(text, type), R"("3\u0000\u0000O")");
  }
}

TEST(ReplyParserTest, PromptsThatEndInsideAThinkBlock) {
  const Tokenizer& tokenizer = TinyTokenizer();
  const auto ends = [&tokenizer](const char* text) {
    return PromptEndsInThink(tokenizer, tokenizer.Encode(text, AddedTokens::kAll));
  };
  EXPECT_TRUE(ends("<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(ends("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(ends("<think>\nunfinished<|im_end|>\n<|im_start|>assistant\n"));
  EXPECT_FALSE(ends(""));
}

TEST(ReplyParserTest, TheReferenceRepliesOfTheDemoModelParseToItsMessages) {
  const Json file = ReadJson(SourcePath("tests/demo/prompts/08-tools-thinking.json"));
  int n_calls = 0;
  for (const Json& turn : file["reference"]) {
    const auto prompt = turn["prompt_ids"].get<std::vector<TokenId>>();
    ReplyParser parser(
        &DemoTokenizer(),
        {.starts_in_think = PromptEndsInThink(DemoTokenizer(), prompt), .tools = file["tools"]});
    Reply reply;
    for (const TokenId id : turn["reply_ids"].get<std::vector<TokenId>>()) {
      Collect(parser.Push(id), &reply);
    }
    Collect(parser.Finish(), &reply);
    EXPECT_NE(reply.reasoning, "");
    EXPECT_EQ(reply.reasoning.find('<'), std::string::npos);
    EXPECT_EQ(reply.content.find('<'), std::string::npos);
    EXPECT_EQ(reply.content.empty(), !reply.calls.empty());
    n_calls += static_cast<int>(reply.calls.size());
  }
  EXPECT_GT(n_calls, 0);
}

}  // namespace
}  // namespace holdfast
