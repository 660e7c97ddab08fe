#include "grammar/schema_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <tuple>

#include "grammar/test_support.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

void Expect(std::string_view schema, std::initializer_list<std::string_view> accepted,
            std::initializer_list<std::string_view> rejected) {
  TriedFormat format(schema);
  ASSERT_TRUE(format.status().ok()) << schema << ": " << format.status().ToString();
  for (const std::string_view text : accepted) {
    EXPECT_TRUE(format.Accepts(text)) << schema << " should accept " << text;
  }
  for (const std::string_view text : rejected) {
    EXPECT_FALSE(format.Accepts(text)) << schema << " should reject " << text;
  }
}

void ExpectRefused(std::string_view schema, std::string_view where, std::string_view word,
                   StatusCode code = StatusCode::kUnimplemented) {
  TriedFormat format(schema);
  EXPECT_EQ(format.status().code(), code) << schema << ": " << format.status().ToString();
  EXPECT_EQ(format.where(), where) << schema;
  EXPECT_THAT(format.status().message(), HasSubstr(std::string(word))) << schema;
}

TEST(SchemaCompilerTest, AnyObjectIsWellFormedJson) {
  Expect(R"({"type":"object"})",
         {"{}", R"({"a":1})", R"({"a": [1, "x", null, true, {"b":{}}], "c":-0.5e+10})",
          R"({"":"é\u00e9\uD83D\uDE00😀"})"},
         {"",
          "[]",
          "{",
          R"({"a"})",
          R"({"a":})",
          R"({"a":1,})",
          R"({"a":01})",
          R"({"a":.5})",
          R"({"a":1.})",
          R"({"a":+1})",
          R"({"a":NaN})",
          R"({a:1})",
          R"({'a':1})",
          R"({"a":1}x)",
          "{\"a\":\"\n\"}",
          R"({"a":"\x"})",
          R"({"a":"\uD800"})",
          R"({"a":"\uDC00\uD800"})",
          "{\"a\":\"\xff\"}",
          "{\"a\":\"\xc0\x80\"}",
          "{\"a\":\"\xed\xa0\x80\"}",
          "{\"a\":\"\xf4\x90\x80\x80\"}"});
}

TEST(SchemaCompilerTest, WhiteSpaceIsAtMostOneSpaceBehindColonsAndCommas) {
  Expect(R"({"properties":{"a":{"type":"integer"},"b":{"type":"array"}}})",
         {R"({"a":1,"b":[1,2]})", R"({"a": 1, "b": [1, 2]})"},
         {R"({ "a":1})", R"({"a":  1})", R"({"a" :1})", "{\"a\":1,\n\"b\":[]}", R"({"a":1 })"});
}

TEST(SchemaCompilerTest, TypesAndLists) {
  Expect(R"({"type":"null"})", {"null"}, {"nul", "0", "\"null\""});
  Expect(R"({"type":"boolean"})", {"true", "false"}, {"True", "1"});
  Expect(R"({"type":["string","null"]})", {R"("x")", "null"}, {"1", "true"});
  Expect(R"({"type":["integer","number"]})", {"1", "1.5"}, {"null"});
  Expect("true", {"null", "1", "[]", "{}"}, {"", "x"});
  ExpectRefused(R"({"type":"float"})", "schema.type", "float", StatusCode::kInvalidArgument);
  ExpectRefused("false", "schema", "no value satisfies", StatusCode::kInvalidArgument);
  ExpectRefused("5", "schema", "must be an object", StatusCode::kInvalidArgument);
}

TEST(SchemaCompilerTest, PropertiesComeInOrderRequiredOnesAlways) {
  Expect(R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"},
             "c":{"type":"integer"}},"required":["b"],"additionalProperties":false})",
         {R"({"b":1})", R"({"a":1,"b":2})", R"({"b":1,"c":2})", R"({"a":1,"b":2,"c":3})"},
         {"{}", R"({"a":1})", R"({"a":1,"c":2})", R"({"b":1,"a":2})", R"({"b":1,"b":2})",
          R"({"b":1,"d":2})", R"({,"b":1})"});
  Expect(R"({"properties":{"a":{"type":"integer"}}})", {"{}", R"({"a":1})"}, {R"({"b":1})", "1"});
  // A required property that is not described may be anything.
  Expect(R"({"type":"object","required":["z"]})", {R"({"z":[]})"}, {"{}"});
  ExpectRefused(R"({"type":"object","required":["z"],"additionalProperties":false})", "schema",
                "no value", StatusCode::kInvalidArgument);
  ExpectRefused(R"({"properties":{"a":{"minProperties":1}}})", "schema.properties.a.minProperties",
                "not supported");
}

TEST(SchemaCompilerTest, OtherPropertiesHaveOtherNames) {
  Expect(R"({"properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string"}})",
         {"{}", R"({"a":1})", R"({"b":"x"})", R"({"a":1, "b":"x","ab":"y","":"z"})"},
         {R"({"a":"x"})", R"({"\u0061":"x"})", R"({"b":1})", R"({"b":"x","a":1})"});
}

TEST(SchemaCompilerTest, EnumAndConst) {
  Expect(R"({"enum":["a","ab",1,null,{"x":[1]}]})",
         {R"("a")", R"("ab")", "1", "null", R"({"x":[1]})"}, {R"("b")", R"("")", "2", "{}"});
  Expect(R"({"type":"string","enum":["a",1]})", {R"("a")"}, {"1"});
  Expect(R"({"const":"é\n"})", {"\"é\\n\""}, {"\"é\n\"", "\"e\""});
  Expect(R"({"enum":["aa","b"],"minLength":2})", {R"("aa")"}, {R"("b")"});
  Expect(R"({"enum":[1,5],"maximum":3})", {"1"}, {"5"});
  ExpectRefused(R"({"enum":[]})", "schema.enum", "at least one", StatusCode::kInvalidArgument);
  ExpectRefused(R"({"enum":[[1]],"items":{}})", "schema.items", "beside enum");
}

TEST(SchemaCompilerTest, Alternatives) {
  Expect(R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]})",
         {"1", R"("x")", R"("")"}, {R"("xy")", "null"});
  // Both begin alike.
  Expect(
      R"({"anyOf":[{"properties":{"k":{"type":"integer"},"x":{"type":"null"}},"required":["k","x"]},
             {"properties":{"k":{"type":"integer"},"y":{"type":"null"}},"required":["k","y"]}]})",
      {R"({"k":1,"x":null})", R"({"k":1,"y":null})"},
      {R"({"k":1})", R"({"k":1,"x":null,"y":null})"});
  Expect(R"({"oneOf":[{"type":"integer"},{"type":"string"}]})", {"1", R"("x")"}, {"null"});
  Expect(R"({"oneOf":[{"type":"object","properties":{"t":{"const":"a"},"v":{"type":"null"}},
               "required":["t","v"]},{"type":"object","properties":{"t":{"enum":["b","c"]}},
               "required":["t"]}]})",
         {R"({"t":"a","v":null})", R"({"t":"c"})"}, {R"({"t":"a"})", R"({"t":"d"})"});
  ExpectRefused(R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "schema.oneOf", "overlap");
  ExpectRefused(R"({"oneOf":[{"type":"object","properties":{"t":{"const":"a"}}},
                  {"type":"object","properties":{"t":{"const":"b"}}}]})",
                "schema.oneOf", "overlap");
  Expect(R"({"allOf":[{"type":"integer"}]})", {"1"}, {"null"});
  Expect(R"({"anyOf":[{"type":"integer"},{"type":"null"}],"minimum":3})", {"3", "null"}, {"2"});
  ExpectRefused(R"({"anyOf":[]})", "schema.anyOf", "at least one", StatusCode::kInvalidArgument);
}

TEST(SchemaCompilerTest, AllOfIsTheNarrowerOfEachKeyword) {
  Expect(R"({"allOf":[{"type":"integer"},{"minimum":1},{"type":["number","null"],"maximum":5}]})",
         {"1", "5"}, {"0", "6", "1.5", "null"});
  Expect(R"({"allOf":[{"type":"string","maxLength":3},{"minLength":2},{"maxLength":9}]})",
         {R"("ab")", R"("abc")"}, {R"("a")", R"("abcd")"});
  Expect(R"({"allOf":[{"pattern":"^a"},{"pattern":"z$"},{"pattern":"^.{2,3}$"}],"type":"string"})",
         {R"("az")", R"("abz")"}, {R"("abcz")", R"("ab")", R"("bz")"});
  Expect(R"({"allOf":[{"enum":["a","b",1]},{"enum":["b",1,"c"]}],"type":"string"})", {R"("b")"},
         {R"("a")", R"("c")", "1"});
  Expect(R"({"allOf":[{"multipleOf":4,"type":"integer"},{"multipleOf":6}],"minimum":1,
             "maximum":30})",
         {"12", "24"}, {"4", "6", "18", "0"});
  // An object is made of parts, as generators of schemas write them.
  Expect(R"({"allOf":[{"$ref":"#/$defs/base"},{"type":"object","properties":{"b":{"type":"null"}},
             "required":["b"]}],"$defs":{"base":{"type":"object","properties":{"a":{"type":
             "integer"}},"required":["a"]}}})",
         {R"({"a":1,"b":null})"}, {R"({"a":1})", R"({"b":null})", R"({"a":1,"b":2})"});
  // What one schema knows of is an additional property of the other.
  Expect(R"({"allOf":[{"properties":{"a":{"type":"integer"}},"additionalProperties":{"type":
             "string"}},{"properties":{"b":{"maxLength":2},"a":{"minimum":3}}}],"type":"object"})",
         {R"({"a":3,"b":"xy"})", R"({"b":"x"})"},
         {R"({"a":2})", R"({"b":"xyz"})", R"({"b":1})", R"({"a":"x"})"});
  Expect(R"({"allOf":[{"properties":{"a":{}},"additionalProperties":false},
             {"properties":{"b":{}}}],"type":"object"})",
         {"{}", R"({"a":1})"}, {R"({"b":1})"});
  Expect(R"({"allOf":[{"items":{"type":"integer"}},{"prefixItems":[{"minimum":5}],"maxItems":2}],
             "type":"array"})",
         {"[]", "[5]", "[5,1]"}, {"[4]", "[5,null]", "[5,1,1]"});
  ExpectRefused(R"({"allOf":[{"type":"integer"},{"type":"string"}]})", "schema", "no value",
                StatusCode::kInvalidArgument);
  ExpectRefused(R"({"allOf":[{"format":"date"},{"format":"uuid"}]})", "schema.allOf[1].format",
                "another format");
  ExpectRefused(R"({"allOf":[{"type":"integer"},{"not":{}}]})", "schema.allOf[1].not",
                "not supported");
  ExpectRefused(R"({"allOf":[]})", "schema.allOf", "at least one", StatusCode::kInvalidArgument);
  ExpectRefused(R"({"allOf":[{"pattern":"a"},{"pattern":5}]})", "schema.pattern", "string",
                StatusCode::kInvalidArgument);
}

TEST(SchemaCompilerTest, AlternativesAreMergedWithWhatSurroundsThem) {
  Expect(R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"null"}},
             "anyOf":[{"required":["a"]},{"required":["b"]}]})",
         {R"({"a":1})", R"({"b":null})", R"({"a":1,"b":null})"}, {"{}", R"({"a":null})"});
  Expect(R"({"allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]},
             {"oneOf":[{"type":"null"},{"type":"string","maxLength":1},{"type":"integer","maximum":
             3}]}]})",
         {"3", R"("x")"}, {"4", "null", R"("xy")"});
  Expect(R"({"properties":{"kind":{"enum":["a","b"]}},"required":["kind"],"type":"object",
             "oneOf":[{"properties":{"kind":{"const":"a"},"x":{"type":"null"}}},
             {"properties":{"kind":{"const":"b"},"y":{"type":"null"}}}]})",
         {R"({"kind":"a","x":null})", R"({"kind":"b"})"},
         {R"({"kind":"a","y":null})", R"({"x":null})", R"({"kind":"c"})"});
}

TEST(SchemaCompilerTest, RecursiveSchemasThatAreMergedStayFinite) {
  Expect(R"({"type":"object","properties":{"v":{"type":"integer"},
             "next":{"allOf":[{"$ref":"#"},{"required":["v"]}]}}})",
         {"{}", R"({"next":{"v":1}})", R"({"v":1,"next":{"v":2,"next":{"v":3}}})"},
         {R"({"next":{}})", R"({"next":{"v":1,"next":{}}})"});
  // Two recursive schemas that meet in each other.
  Expect(R"({"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"$defs":{
             "a":{"type":"object","properties":{"x":{"$ref":"#/$defs/b"}}},
             "b":{"type":"object","properties":{"x":{"$ref":"#/$defs/a"}}}}})",
         {"{}", R"({"x":{"x":{}}})"}, {R"({"x":1})"});
  ExpectRefused(R"({"allOf":[{"$ref":"#"},{"type":"object"}]})", "schema", "leads to itself");
  // Twice as many paths with every level, but few schemas.
  std::string defs;
  for (int i = 0; i < 60; ++i) {
    const std::string next = "#/$defs/d" + std::to_string(i + 1);
    defs += R"("d)" + std::to_string(i) + R"(":{"allOf":[{"$ref":")" + next + R"("},{"$ref":")" +
            next + R"("}]},)";
  }
  Expect(R"({"$ref":"#/$defs/d0","$defs":{)" + defs + R"("d60":{"type":"null"}}})", {"null"},
         {"1"});
}

TEST(SchemaCompilerTest, PropertiesByPattern) {
  Expect(
      R"({"type":"object","patternProperties":{"^x-":{"type":"string"},"\\d$":{"maxLength":2}},
             "additionalProperties":{"type":"null"}})",
      {"{}", R"({"x-a":"long"})", R"({"x-1":"ab"})", R"({"n":null,"x-a":"y"})", R"({"7":"ab"})"},
      {R"({"x-a":1})", R"({"x-1":"abc"})", R"({"n":"x"})", R"({"\u0078-a":1})", R"({"7":"abc"})"});
  // A declared property satisfies both.
  Expect(R"({"type":"object","properties":{"ab":{"type":"integer"},"c":{"type":"null"}},
             "patternProperties":{"^a":{"minimum":5}},"additionalProperties":false,
             "required":["ab"]})",
         {R"({"ab":5})", R"({"ab":6,"c":null,"ax":5})"},
         {R"({"ab":4})", R"({"ab":5,"ax":4})", R"({"ab":5,"d":1})", "{}"});
  // Only what the schema speaks of, and required names by their pattern.
  Expect(R"({"patternProperties":{"^n":{"type":"integer"}},"required":["n1"]})",
         {R"({"n1":1})", R"({"n1":1,"n":2})"}, {R"({"n1":null})", R"({"n1":1,"m":1})", "{}"});
  ExpectRefused(R"x({"patternProperties":{"(?=a)":{}}})x", "schema.patternProperties",
                "not supported");
  ExpectRefused(R"({"patternProperties":5})", "schema.patternProperties", "object of schemas",
                StatusCode::kInvalidArgument);
  ExpectRefused(R"({"patternProperties":{"1":{},"2":{},"3":{},"4":{},"5":{}}})",
                "schema.patternProperties", "at most 4");
}

TEST(SchemaCompilerTest, MultiplesAsTheyAreWritten) {
  for (const auto& [low, high, multiple] :
       {std::tuple(-50, 1200, 7), {0, 999, 100}, {-17, -3, 4}, {5, 5, 5}, {98, 1003, 64}}) {
    TriedFormat format(R"({"type":"integer","minimum":)" + std::to_string(low) + R"(,"maximum":)" +
                       std::to_string(high) + R"(,"multipleOf":)" + std::to_string(multiple) + "}");
    ASSERT_TRUE(format.status().ok()) << format.status().ToString();
    for (int i = -1300; i <= 1300; ++i) {
      EXPECT_EQ(format.Accepts(std::to_string(i)), low <= i && i <= high && i % multiple == 0)
          << i << " of " << multiple;
    }
    EXPECT_FALSE(format.Accepts("-0"));
    EXPECT_FALSE(format.Accepts("00"));
  }
  Expect(R"({"type":"integer","multipleOf":3})", {"0", "3", "-27", "999999999999999"},
         {"1", "-1", "03", "1000000000000000", "3.0"});
  Expect(R"({"multipleOf":0.01})", {"0", "0.07", "-12.3", "12.30", "5"},
         {"0.001", "0.", "1e2", "-0", "-0.00", ".5"});
  Expect(R"({"multipleOf":0.5,"minimum":-1.2,"exclusiveMaximum":2})", {"-1", "-0.5", "0", "1.5"},
         {"-1.5", "2", "2.0", "0.25", "1.2"});
  Expect(R"({"multipleOf":0.25,"minimum":10,"maximum":11})", {"10", "10.25", "10.5", "10.50", "11"},
         {"9.75", "10.1", "10.3", "11.25"});
  Expect(R"({"type":"integer","multipleOf":1.5})", {"3", "0", "-6"}, {"1", "2", "4"});
  Expect(R"({"type":"integer","multipleOf":86400,"minimum":1})", {"86400", "172800"},
         {"0", "86401", "43200"});
  Expect(R"({"enum":[1,2,0.07,5],"multipleOf":0.5})", {"1", "2", "5"}, {"0.07"});
  ExpectRefused(R"({"multipleOf":99991,"type":"integer"})", "schema", "states",
                StatusCode::kOutOfRange);
  ExpectRefused(R"({"multipleOf":0})", "schema.multipleOf", "above 0",
                StatusCode::kInvalidArgument);
  ExpectRefused(R"({"multipleOf":"1"})", "schema.multipleOf", "number",
                StatusCode::kInvalidArgument);
  ExpectRefused(R"({"multipleOf":1e-20})", "schema", "decimals", StatusCode::kOutOfRange);
}

TEST(SchemaCompilerTest, ItemsThatDiffer) {
  Expect(R"({"type":"array","items":{"enum":["a","b","c"]},"uniqueItems":true})",
         {"[]", R"(["a"])", R"(["c", "a"])", R"(["b","a","c"])"},
         {R"(["a","a"])", R"(["c","a","c"])", R"(["d"])"});
  Expect(R"({"items":{"type":["boolean","null"]},"uniqueItems":true,"minItems":2})",
         {"[true,null]", "[null,false,true]"}, {"[true]", "[true,true]", "[true,null,true]"});
  Expect(R"({"items":{"enum":[1,1.0,2]},"uniqueItems":true})", {"[1,2]", "[2,1]"}, {"[1,1]"});
  // Many come in their order.
  Expect(R"({"items":{"enum":[1,2,3,4,5,6,7,8,9]},"uniqueItems":true,"minItems":2,"maxItems":3})",
         {"[1,9]", "[2,3,4]"}, {"[1]", "[9,1]", "[1,1]", "[1,2,3,4]"});
  Expect(R"({"items":{"enum":[1,2,3,4,5,6,7,8,9]},"uniqueItems":true})",
         {"[]", "[9]", "[1,2,3,4,5,6,7,8,9]"}, {"[2,2]", "[1,2,1]"});
  ExpectRefused(R"({"items":{"const":1},"uniqueItems":true,"minItems":2})", "schema", "no value",
                StatusCode::kInvalidArgument);
  ExpectRefused(R"({"items":{"const":1},"uniqueItems":1})", "schema.uniqueItems", "boolean",
                StatusCode::kInvalidArgument);
  ExpectRefused(R"({"prefixItems":[{"const":1}],"items":{"const":1},"uniqueItems":true})",
                "schema.uniqueItems", "prefixItems");
}

TEST(SchemaCompilerTest, ReferencesAndRecursion) {
  Expect(R"({"$ref":"#/$defs/list","$defs":{"list":{"type":"object","properties":{
             "v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/list"},{"type":"null"}]}},
             "required":["v","next"]}}})",
         {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"},
         {R"({"v":1})", R"({"v":1,"next":{}})", R"({"v":1,"next":{"v":2,"next":null})"});
  Expect(R"({"type":"array","items":{"$ref":"#"}})", {"[]", "[[],[[]]]"}, {"[1]", "[[]"});
  Expect(R"({"$ref":"#/$defs/a~1b~0c","$defs":{"a/b~c":{"const":1}}})", {"1"}, {"2"});
  Expect(R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", {"null"}, {"1"});
  ExpectRefused(R"({"$ref":"#"})", "schema.$ref", "leads to itself");
  ExpectRefused(R"({"$ref":"#/$defs/x"})", "schema.$ref", "leads nowhere",
                StatusCode::kInvalidArgument);
  ExpectRefused(R"({"$ref":"https://example.com/x"})", "schema.$ref", "into the schema itself");
  Expect(
      R"({"properties":{"a":{"$ref":"#/$defs/n","minimum":2}},"$defs":{"n":{"type":"integer"}}})",
      {R"({"a":2})"}, {R"({"a":1})", R"({"a":2.5})"});
  ExpectRefused(
      R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"array","minItems":1,"items":{"$ref":"#"}}}})",
      "schema", "no value satisfies", StatusCode::kInvalidArgument);
}

TEST(SchemaCompilerTest, LengthsCountCharacters) {
  Expect(R"({"type":"string","minLength":2,"maxLength":3})",
         {R"("ab")", R"("äöü")", R"("\n\"")", R"("😀\uD83D\uDE00")"},
         {R"("a")", R"("abcd")", R"("")", R"("\u00e9")"});
  Expect(R"({"minLength":2})", {R"("abcdefghij")"}, {R"("a")"});
  ExpectRefused(R"({"minLength":-1})", "schema.minLength", "whole number",
                StatusCode::kInvalidArgument);
  ExpectRefused(R"({"minLength":3,"maxLength":2})", "schema", "no value",
                StatusCode::kInvalidArgument);
  TriedFormat large(R"({"maxLength":1000000000,"minLength":1000000})");
  ASSERT_TRUE(large.status().ok());
  EXPECT_LT(large.grammar().states.size(), 1000u);
  EXPECT_TRUE(large.AcceptsBeginning("\"" + std::string(5000, 'x')));
  EXPECT_FALSE(large.AcceptsBeginning("\"" + std::string(5000, 'x') + "\""));
}

TEST(SchemaCompilerTest, Patterns) {
  Expect(R"({"pattern":"^[a-c]+\\d{2,3}$"})", {R"("ab12")", R"("c123")", R"("\u006112")"},
         {R"("ab1")", R"("d12")", R"("ab1234")", R"("ab12 ")"});
  Expect(R"({"pattern":"b"})", {R"("abc")", R"("b")"}, {R"("ac")", R"("")"});
  Expect(R"({"pattern":"^(foo|ba[rz])?$"})", {R"("")", R"("foo")", R"("baz")"},
         {R"("ba")", R"("foobar")"});
  Expect(R"({"pattern":"^\\$\\{.*\\}$"})", {R"("${x}")"}, {R"("$x")", R"("${x")", R"("${\n}")"});
  Expect(R"({"pattern":"^\\u{1F600}[^\\w\\s]\\x41$"})", {R"("😀!A")"}, {R"("😀aA")", R"("😀 A")"});
  Expect(R"({"pattern":"^a|b$"})", {R"("ax")", R"("xb")"}, {R"("xa")", R"("bx")"});
  Expect(R"({"pattern":"^a*$","minLength":2,"maxLength":3})", {R"("aa")", R"("aaa")"},
         {R"("a")", R"("aaaa")", R"("ab")"});
  for (const char* bad : {"(?=a)", "\\\\b", "(a)\\\\1", "\\\\p{L}", "(?i:a)"}) {
    ExpectRefused(R"({"pattern":")" + std::string(bad) + R"("})", "schema.pattern",
                  "not supported");
  }
  for (const char* bad : {"(", ")", "[a", "a{2,1}", "*", "a{3000}", "\\\\u12"}) {
    ExpectRefused(R"({"pattern":")" + std::string(bad) + R"("})", "schema.pattern",
                  "schema.pattern", StatusCode::kInvalidArgument);
  }
  ExpectRefused(R"({"pattern":"^(a{900}){900}$"})", "schema.pattern", "large",
                StatusCode::kOutOfRange);
  ExpectRefused(R"({"pattern":"(a|b)*a(a|b){15}$"})", "schema.pattern", "too many",
                StatusCode::kOutOfRange);
}

TEST(SchemaCompilerTest, Formats) {
  Expect(R"({"format":"date"})", {R"("2024-02-28")", R"("1999-12-31")"},
         {R"("2024-02-30")", R"("2024-13-01")", R"("2024-1-1")"});
  Expect(R"({"format":"date-time"})",
         {R"("2024-02-28T23:59:59Z")", R"("2024-02-28T00:00:00.5+01:30")"},
         {R"("2024-02-28")", R"("2024-02-28T24:00:00Z")", R"("2024-02-28T00:00:00")"});
  Expect(R"({"format":"ipv4"})", {R"("255.0.10.1")"},
         {R"("256.0.0.1")", R"("1.2.3")", R"("01.2.3.4")"});
  Expect(R"({"format":"uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123e4567")"});
  Expect(R"({"format":"email"})", {R"("a.b@example.com")"}, {R"("a@")", R"("@b.c")"});
  Expect(R"({"format":"uri"})", {R"("https://example.com/a?b=c#d")"}, {R"("example")"});
  ExpectRefused(R"({"format":"iri"})", "schema.format", "iri");
}

TEST(SchemaCompilerTest, Integers) {
  Expect(R"({"type":"integer"})", {"0", "-1", "123456789012345"},
         {"01", "1.0", "1e3", "-", "1234567890123456"});
  Expect(R"({"type":"integer","minimum":-12,"maximum":105})",
         {"-12", "-1", "0", "9", "10", "99", "100", "105"},
         {"-13", "-20", "-100", "106", "110", "200"});
  Expect(R"({"type":"integer","exclusiveMinimum":3,"exclusiveMaximum":5})", {"4"},
         {"3", "5", "-4"});
  Expect(R"({"type":"integer","minimum":0.5,"maximum":1.5})", {"1"}, {"0", "2", "1.0"});
  Expect(R"({"type":"integer","minimum":995})", {"995", "1000", "123456"}, {"994", "99", "-995"});
  Expect(R"({"type":"integer","maximum":-5})", {"-5", "-10", "-123456"}, {"-4", "0", "5"});
  Expect(R"({"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991})",
         {"0", "-999999999999999"}, {});
  ExpectRefused(R"({"type":"integer","minimum":3,"maximum":2})", "schema", "no value",
                StatusCode::kInvalidArgument);
  ExpectRefused(R"({"minimum":"3"})", "schema.minimum", "number", StatusCode::kInvalidArgument);
}

TEST(SchemaCompilerTest, EveryIntegerOfARangeAndNoOther) {
  for (const auto& [low, high] : {std::pair{-23, 117}, {0, 0}, {7, 11}, {-9, -1}, {99, 101}}) {
    TriedFormat format("{\"type\":\"integer\",\"minimum\":" + std::to_string(low) +
                       ",\"maximum\":" + std::to_string(high) + "}");
    for (int i = -1200; i <= 1200; ++i) {
      EXPECT_EQ(format.Accepts(std::to_string(i)), low <= i && i <= high) << i << " in " << low;
    }
  }
}

TEST(SchemaCompilerTest, NumbersWithBounds) {
  Expect(R"({"type":"number"})", {"0", "-1.5", "1e10", "2.5E-07"}, {"1.", ".5", "1e", "1e400"});
  Expect(R"({"minimum":0,"maximum":1})", {"0", "0.0", "1", "1.0", "1.000", "0.999", "0.00001"},
         {"1.001", "2", "-0.1", "1e0", "10", "-0"});
  Expect(R"({"exclusiveMinimum":0,"exclusiveMaximum":1})", {"0.5", "0.000001", "0.99999"},
         {"0", "0.0", "1", "1.0"});
  Expect(R"({"minimum":-2.5,"maximum":0.25})", {"-2.5", "-2.49", "-1", "0", "0.25", "0.2"},
         {"-2.51", "0.26", "-3", "0.3", "1"});
  Expect(R"({"minimum":0})", {"0", "12.5", "99999.25"}, {"-1", "-0.5"});
  ExpectRefused(R"({"minimum":1e-30,"maximum":1})", "schema", "decimals", StatusCode::kOutOfRange);
}

TEST(SchemaCompilerTest, Arrays) {
  Expect(R"({"type":"array","items":{"type":"integer"}})", {"[]", "[1]", "[1,2, 3]"},
         {"[", "[1,]", "[,1]", "[null]", "[1 2]"});
  Expect(R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3})",
         {"[1,2]", "[1,2,3]"}, {"[]", "[1]", "[1,2,3,4]"});
  Expect(R"({"maxItems":0})", {"[]"}, {"[1]"});
  Expect(R"({"prefixItems":[{"type":"integer"},{"type":"string"}]})", {"[]", "[1]", R"([1,"x"])"},
         {R"(["x"])", R"([1,"x",2])"});
  Expect(R"({"prefixItems":[{"type":"integer"}],"items":{"type":"null"},"minItems":2})",
         {"[1,null]", "[1,null,null]"}, {"[1]", "[1,1]"});
  Expect(R"({"prefixItems":[{"type":"integer"}],"items":false,"minItems":1})", {"[1]"},
         {"[]", "[1,2]"});
  Expect(R"({"type":"array","minItems":2})", {R"([1,"a"])", "[[],{},null]"}, {"[1]"});
  ExpectRefused(R"({"type":"array","uniqueItems":true})", "schema.uniqueItems", "only where");
  ExpectRefused(R"({"items":{"type":"string"},"uniqueItems":true})", "schema.uniqueItems",
                "only where");
  ExpectRefused(R"({"type":"array","contains":{}})", "schema.contains", "not supported");
  Expect(R"({"type":"array","uniqueItems":true,"maxItems":1})", {"[1]"}, {"[1,1]"});
}

TEST(SchemaCompilerTest, KeywordsThatAreNotKnownAreRefusedByTheirPlace) {
  for (const char* keyword :
       {"not", "if", "minProperties", "propertyNames", "dependentRequired", "unevaluatedProperties",
        "$dynamicRef", "$anchor", "nullable", "minLenght"}) {
    ExpectRefused(R"({"properties":{"x":{"items":{")" + std::string(keyword) + R"(":{}}}}})",
                  "schema.properties.x.items." + std::string(keyword), "not supported");
  }
  Expect(R"({"title":"t","description":"d","default":1,"examples":[1],"$schema":"s","$id":"i",
             "$comment":"c","x-order":3,"deprecated":true,"type":"integer"})",
         {"1"}, {"null"});
}

TEST(SchemaCompilerTest, LimitsOfSize) {
  std::string deep = "{}";
  for (int i = 0; i < 100; ++i) deep = R"({"type":"array","items":)" + deep + "}";
  TriedFormat nested(deep);
  EXPECT_EQ(nested.status().code(), StatusCode::kOutOfRange);
  std::string words;
  for (int i = 0; i < 30000; ++i) words += (i ? ",\"" : "\"") + std::to_string(i * 7919) + "\"";
  TriedFormat large(R"({"enum":[)" + words + "]}");
  EXPECT_EQ(large.status().code(), StatusCode::kOutOfRange);
  EXPECT_THAT(large.status().message(), HasSubstr("100000 states"));
}

}  // namespace
}  // namespace holdfast
