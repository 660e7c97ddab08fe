#include "token/jinja/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "token/jinja/json_values.h"
#include "token/jinja/parser.h"

namespace holdfast::jinja {
namespace {

using Json = nlohmann::ordered_json;

Result<TaggedString> RenderTagged(std::string_view source, const Json& variables = Json::object(),
                                  const Limits& limits = Limits()) {
  HF_ASSIGN_OR_RETURN(const Body body, Parse(source));
  Variables globals;
  for (auto it = variables.begin(); it != variables.end(); ++it) {
    HF_ASSIGN_OR_RETURN(globals[it.key()], FromJson(it.value(), kRequest));
  }
  Interpreter interpreter(limits, /*now_s=*/0);
  return interpreter.Render(body, std::move(globals));
}

// The output, or "error: " and the message.
std::string Render(std::string_view source, const Json& variables = Json::object()) {
  const auto text = RenderTagged(source, variables);
  return text.ok() ? text->text() : "error: " + text.status().message();
}

struct Case {
  const char* source;
  const char* expected;
};

void ExpectAll(const std::vector<Case>& cases, const Json& variables = Json::object()) {
  for (const Case& test : cases)
    EXPECT_EQ(Render(test.source, variables), test.expected) << test.source;
}

// Expected outputs throughout are those of Jinja 3.1 with trim_blocks and lstrip_blocks.

TEST(JinjaTest, WhitespaceControl) {
  ExpectAll({
      {"a\n{% if true %}\nb\n{% endif %}\nc\n", "a\nb\nc"},
      {"a\n  {% if true %}  \nb\n  {%- endif %}\nc", "a\n  \nbc"},
      {"a  {%- if true -%}  b  {%- endif -%}  c", "abc"},
      {"a\n  {%+ if true %}b{% endif %}", "a\n  b"},
      {"{% if true +%}\nb{% endif %}", "\nb"},
      {"a\n  {{ 'x' }}\nb", "a\n  x\nb"},
      {"a {{- ' x ' -}} b", "a x b"},
      {"a\n  {# gone #}\nb", "a\nb"},
      {"a\n  {#- gone -#}\n b", "ab"},
      {"x {% if true %}y{% endif %}", "x y"},
      {"{% raw %}{{ x }}{% endraw %}!", "{{ x }}!"},
      {"a\r\nb\rc\r\n\r\n", "a\nb\nc\n"},
      {"{% set x = 1 %}\n\n{{ x }}", "\n1"},
  });
}

TEST(JinjaTest, LiteralsAndStrings) {
  ExpectAll({
      {R"({{ 'a\n\t\\\'\"' }})", "a\n\t\\'\""},
      {R"({{ "\x41\u00e9\U0001F600\q" }})", "Aé😀\\q"},
      {"{{ 'a' 'b' \"c\" }}", "abc"},
      {"{{ 1_000 }} {{ 1.5 }} {{ 1e3 }} {{ 2.0 }} {{ 1e-5 }} {{ 1e16 }}",
       "1000 1.5 1000.0 2.0 1e-05 1e+16"},
      {"{{ true }} {{ False }} {{ none }} {{ None }}", "True False None None"},
      {"{{ [1, 'a', 'it\\'s', 2.5, none, true] }}", "[1, 'a', \"it's\", 2.5, None, True]"},
      {"{{ (1, 2) }} {{ {'a': 1, 'b': [2]} }} {{ [] }} {{ {} }}",
       "[1, 2] {'a': 1, 'b': [2]} [] {}"},
      {"{{ {'a': {'b': {}}} }}", "{'a': {'b': {}}}"},
      {"{{ missing }}|{{ missing is defined }}", "|False"},
  });
}

TEST(JinjaTest, OperatorsAndTheirPrecedence) {
  ExpectAll({
      {"{{ 1 + 2 * 3 ** 2 - -4 }}", "23"},
      {"{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** -1 }} {{ 7.5 % 2 }}",
       "3 -4 2 3.5 0.5 1.5"},
      {"{{ 'a' ~ 1 ~ none ~ 2.0 }}", "a1None2.0"},
      {"{{ 'ab' * 2 + 'c' }} {{ [1] * 2 + [2] }}", "ababc [1, 1, 2]"},
      {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }}",
       "True False True True True"},
      {"{{ not true or true }} {{ not (true or true) }} {{ 1 and 0 }} {{ 0 or 'x' }}",
       "True False 0 x"},
      {"{{ 'b' in 'abc' }} {{ 2 in [1, 2] }} {{ 'k' not in {'k': 1} }} {{ not 1 in [1] }}",
       "True True False False"},
      {"{{ 'yes' if 1 else 'no' }} {{ 'x' if 0 }}|{{ 1 if 0 else 2 if 0 else 3 }}", "yes |3"},
      {"{{ -2 | abs }} {{ 1 + 2 | string }}", "error: line 1: cannot compute integer + string"},
      {"{{ 'a' + 1 }}", "error: line 1: cannot compute string + integer"},
      {"{{ '%s-%03d-%.2f-%%' % ('a', 7, 1.5) }} {{ '%s' % 'b' }}", "a-007-1.50-% b"},
      {"{{ 9223372036854775807 + 1 }}", "error: line 1: the result of + does not fit in 64 bits"},
      {"{{ 1 / 0 }}", "error: line 1: division by zero"},
      {"{{ 1 == 1 is true }} {{ 3 is divisibleby 3 and true }}", "False True"},
  });
}

TEST(JinjaTest, IndexesAndSlices) {
  ExpectAll(
      {
          {"{{ l[0] }}{{ l[-1] }}{{ l[9] }}{{ l.1 }}", "132"},
          {"{{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[::2] }} {{ l[-2:] }} {{ l[5:] }}",
           "[2, 3] [1, 2] [3, 2, 1] [1, 3] [2, 3] []"},
          {"{{ s[1:3] }} {{ s[::-1] }} {{ s[-1] }} {{ s[0] }} {{ s|length }}", "éß xßéa x a 4"},
          {"{{ d.a }} {{ d['a'] }} {{ d['items'] }} {{ d.b.c }} {{ d.no }}|{{ d['no'] is undefined "
           "}}",
           "1 1 own 2 |True"},
          {"{% for k, v in d.items() %}{{ k }};{% endfor %}", "a;items;b;"},
          {"{{ no.more }}", "error: line 1: cannot read \"more\" of \"no\", which is undefined"},
          {"{{ d.no.more }}", "error: line 1: cannot read \"more\" of \".no\", which is undefined"},
      },
      Json::parse(
          R"({"l": [1, 2, 3], "s": "aéßx", "d": {"a": 1, "items": "own", "b": {"c": 2}}})"));
}

TEST(JinjaTest, Loops) {
  ExpectAll(
      {
          {"{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 "
           "}}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
           "1032TrueFalse3 2121FalseFalse3 3210FalseTrue3 "},
          {"{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
           "<1>2 1<2>3 2<3> "},
          {"{% for x in l if x != 2 %}{{ x }}{{ loop.last }}{% else %}none{% endfor %}",
           "1False3True"},
          {"{% for x in [] %}{% else %}none{% endfor %}", "none"},
          {"{% for x in l %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% if x == 3 %}{% break "
           "%}{% endif %}{% endfor %}",
           "13"},
          {"{% for a, b in [(1, 2), (3, 4)] %}{{ a + b }} {% endfor %}", "3 7 "},
          {"{% for k in d %}{{ k }}{{ d[k] }}{% endfor %}", "x1y2"},
          {"{% for c in 'aé' %}[{{ c }}]{% endfor %}", "[a][é]"},
          {"{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x // 2) }} {% endfor %}",
           "aTrue bTrue aFalse "},
          {"{% for x in l %}{% for y in l %}{{ loop.depth }}{% endfor %}{{ loop.depth0 }} {% "
           "endfor %}",
           "1110 1110 1110 "},
          {"{% for x in missing %}x{% else %}empty{% endfor %}", "empty"},
          {"{% set x = 0 %}{% for i in l %}{% set x = i %}{% endfor %}{{ x }}", "0"},
          {"{% set ns = namespace(x=0) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ "
           "ns.x }}",
           "6"},
          {"{% for i in range(3) %}{{ i }}{% endfor %} {{ range(4, 0, -2) | list }}", "012 [4, 2]"},
          {"{% for a, b in [(1,)] %}{% endfor %}",
           "error: line 1: cannot unpack 1 values into 2 names"},
          {"{% break %}", "error: line 1: 'break' outside of a loop"},
      },
      Json::parse(R"({"l": [1, 2, 3], "d": {"x": 1, "y": 2}})"));
}

TEST(JinjaTest, MacrosBlocksAndScopes) {
  ExpectAll({
      {"{% macro f(a, b='d', c) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, c=2) }} {{ "
       "f(b=1, a=2) }}",
       "1d 1d2 21"},
      {"{% macro fact(n) %}{{ 1 if n < 2 else n * fact(n - 1) | int }}{% endmacro %}{{ fact(5) }}",
       "120"},
      {"{% macro m(x) %}<{{ caller(x) }}>{% endmacro %}{% call(y) m(3) %}{{ y }}!{% endcall %}",
       "<3!>"},
      {"{% set x %}a{{ 1 }} {% endset %}[{{ x }}]", "[a1 ]"},
      {"{% set x | trim | upper %} a {% endset %}[{{ x }}]", "[A]"},
      {"{% filter upper | replace('A', 'b') %}xa{% endfilter %}", "Xb"},
      {"{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}", "3False"},
      {"{% if true %}{% set x = 1 %}{% endif %}{{ x }}", "1"},
      {"{% set a, b = 1, 2 %}{{ a }}{{ b }}", "12"},
      {"{% generation %}x{% endgeneration %}", "x"},
      {"{% macro f() %}{{ x }}{% endmacro %}{% set x = 5 %}{{ f() }}", "5"},
      {"{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}",
       "error: line 1: macro 'f' takes 1 arguments, 2 given"},
      {"{% macro f(a) %}{% endmacro %}{{ f(z=2) }}",
       "error: line 1: macro 'f' has no parameter \"z\""},
      {"{% set x.y = 1 %}", "error: line 1: cannot set an attribute of \"x\": it is no namespace"},
      {"{{ raise_exception('no: ' ~ 3) }}", "error: line 1: no: 3"},
      {"\n\n{{ nofun() }}", "error: line 3: cannot call \"nofun\", which is undefined"},
      {"{% set ns = namespace() %}{% for i in [1] %}{% macro f() %}{% endmacro %}{% set ns.f = f "
       "%}{% endfor %}{{ ns.f() }}",
       "error: line 1: the macro 'f' is called outside of its block"},
  });
}

TEST(JinjaTest, FiltersOnText) {
  ExpectAll({
      {"{{ '  a b ' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ 'aB c' | upper }}|{{ 'aB' | lower }}",
       "a b|a|AB C|ab"},
      {"{{ 'hello wORLD' | title }}|{{ 'hELLO' | capitalize }}|{{ 'a.b.c' | replace('.', '') }}|{{ "
       "'aaa' | replace('a', 'b', 2) }}",
       "Hello World|Hello|abc|bba"},
      {"{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}", "a\n    b\n\n    c|  a\n  b"},
      {"{{ 'é/ a?' | urlencode }}|{{ '<a&\"\\'>' | e }}|{{ 'a b  c' | wordcount }}",
       "%C3%A9/%20a%3F|&lt;a&amp;&#34;&#39;&gt;|3"},
      {"{{ '%s is %d' | format('x', 3) }}|{{ 5 | string + '!' }}|{{ ['a', 'b'] | join }}|{{ [1, 2] "
       "| join(', ') }}",
       "x is 3|5!|ab|1, 2"},
      {"{{ 'hello big world' | truncate(9, leeway=0) }}|{{ 'hello' | truncate(3, true, '', 0) }}",
       "hello...|hel"},
      {"{{ 'x' | default('d') }}{{ no | default('d') }}{{ '' | d('e', true) }}{{ none | "
       "default('n') }}",
       "xdeNone"},
      {"{{ 'a' | nosuch }}", "error: line 1: there is no filter \"nosuch\""},
  });
}

TEST(JinjaTest, FiltersOnNumbersAndLists) {
  ExpectAll(
      {
          {"{{ '42' | int }} {{ 'x' | int(7) }} {{ 3.9 | int }} {{ '3.7' | int }} {{ '2.5' | float "
           "}} {{ 'x' | float(1.5) }}",
           "42 7 3 3 2.5 1.5"},
          {"{{ 2.567 | round(2) }} {{ 2.5 | round }} {{ 2.1 | round(0, 'ceil') }} {{ -3 | abs }}",
           "2.57 2.0 3.0 3"},
          {"{{ [3, 1, 2] | sort }} {{ ['b', 'A'] | sort }} {{ [1, 2] | sort(reverse=true) }} {{ "
           "[1, 2, 3] | reverse | list }} {{ 'abc' | reverse }}",
           "[1, 2, 3] ['A', 'b'] [2, 1] [3, 2, 1] cba"},
          {"{{ [1, 2] | first }}{{ [1, 2] | last }}{{ [] | first }} {{ [1, 2] | sum }} {{ [1, 5, "
           "2] | max }} {{ ['b', 'a'] | min }} {{ [1, 2] | length }}",
           "12 3 5 a 2"},
          {"{{ ms | map(attribute='role') | join(',') }} {{ ms | map(attribute='x', default='-') | "
           "list }}",
           "user,tool,user ['-', '-', '-']"},
          {"{{ ms | selectattr('role', 'equalto', 'user') | list | length }} {{ ms | "
           "rejectattr('role', 'eq', 'user') | map(attribute='n') | list }} {{ ms | "
           "selectattr('n') | list | length }}",
           "2 [2] 2"},
          {"{{ [1, 2, 3, 4] | select('odd') | list }} {{ [0, 1] | reject | list }} {{ ['a', 'b'] | "
           "map('upper') | list }} {{ [1, 2] | select('in', [2]) | list }}",
           "[1, 3] [0] ['A', 'B'] [2]"},
          {"{{ [1, 2, 1, 'A', 'a'] | unique | list }} {{ [1, 2, 3] | batch(2) | list }} {{ {'b': "
           "1, 'A': 2} | dictsort }} {{ {'b': 1, 'a': 2} | dictsort(false, 'value') }}",
           "[1, 2, 'A'] [[1, 2], [3]] [['A', 2], ['b', 1]] [['b', 1], ['a', 2]]"},
          {"{% for g in ms | groupby('role') %}{{ g.grouper }}{{ g.list | length }};{% endfor %}",
           "tool1;user2;"},
          {"{{ {'a': 1} | items | list }} {{ {'a': 1}.get('b', 2) }} {{ {'a': 1}.get('b') }} {{ "
           "{'a': 1, 'b': 2}.keys() | list }} {{ {'a': 1}.values() | list }}",
           "[['a', 1]] 2 None ['a', 'b'] [1]"},
      },
      Json::parse(
          R"({"ms": [{"role": "user", "n": 1}, {"role": "tool", "n": 2}, {"role": "user", "n": 0}]})"));
}

TEST(JinjaTest, Tests) {
  ExpectAll({
      {"{{ 1 is number }}{{ 'a' is string }}{{ [] is sequence }}{{ {} is mapping }}{{ none is none "
       "}}{{ 1 is integer }}{{ true is integer }}{{ 1.0 is float }}{{ true is boolean }}",
       "TrueTrueTrueTrueTrueTrueFalseTrueTrue"},
      {"{{ [] is iterable }}{{ 1 is iterable }}{{ 'a' is not defined }}{{ no is undefined }}{{ 1 "
       "is odd }}{{ 2 is even }}{{ 4 is divisibleby(2) }}",
       "TrueFalseFalseTrueTrueTrueTrue"},
      {"{{ 1 is eq 1 }}{{ 1 is ne 1 }}{{ 2 is gt 1 }}{{ 1 is in [1] }}{{ 'a' is lower }}{{ 'a' is "
       "upper }}{{ true is true }}{{ 1 is true }}{{ range is callable }}",
       "TrueFalseTrueTrueTrueFalseTrueFalseTrue"},
      {"{{ 1 is nosuch }}", "error: line 1: there is no test \"nosuch\""},
  });
}

TEST(JinjaTest, StringMethods) {
  ExpectAll({
      {"{{ ' a '.strip() }}|{{ 'xax'.lstrip('x') }}|{{ 'xax'.rstrip('x') }}|{{ 'a,b,c'.split(',') "
       "}}|{{ 'a b  c'.split() }}",
       "a|ax|xa|['a', 'b', 'c']|['a', 'b', 'c']"},
      {"{{ 'a,b,c'.split(',', 1) }}|{{ 'a,b,c'.rsplit(',', 1) }}|{{ ' a  b c '.split(none, 1) "
       "}}|{{ 'a</think>b'.split('</think>')[-1] }}",
       "['a', 'b,c']|['a,b', 'c']|['a', 'b c ']|b"},
      {"{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith('bc') }}{{ 'abc'.startswith(('x', 'a')) }}{{ "
       "'abc'.find('c') }}{{ 'é-é'.rfind('é') }}{{ 'abc'.find('z') }}{{ 'aba'.count('a') }}",
       "TrueTrueTrue22-12"},
      {"{{ 'a-b'.replace('-', '+') }}|{{ 'aB'.upper() }}|{{ 'aB'.lower() }}|{{ 'ab cd'.title() "
       "}}|{{ 'ab'.capitalize() }}|{{ '-'.join(['a', 'b']) }}",
       "a+b|AB|ab|Ab Cd|Ab|a-b"},
      {"{{ 'a\nb\n'.splitlines() }}|{{ 'prefix-x'.removeprefix('prefix-') }}|{{ "
       "'x.py'.removesuffix('.py') }}|{{ '12'.isdigit() }}{{ 'a1'.isalpha() }}{{ 'a1'.isalnum() }}",
       "['a', 'b']|x|x|TrueFalseTrue"},
      {"{{ ''.nosuch() }}", "error: line 1: string has no method \"nosuch\""},
      {"{{ 'a'.index('b') }}", "error: line 1: index: the substring is not there"},
      {"{{ ['a', 'b'].index('b') }}{{ [1, 1].count(1) }}", "12"},
      {"{{ [1].append(2) }}", "error: line 1: list has no method \"append\""},
  });
}

TEST(JinjaTest, ToJsonPrintsAsPythonDoes) {
  ExpectAll(
      {
          {"{{ v | tojson }}",
           R"({"z": 1, "a": [1, 2.5, true, null, "é\"\\\n\u0001</x>"], "e": {}, "l": [], "f": 1.0})"},
          {"{{ {'a': [1, {}], 'b': []} | tojson(indent=2) }}",
           "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}"},
          {"{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}", R"({"a": 2, "b": 1})"},
          {"{{ 'é😀' | tojson(ensure_ascii=true) }}", R"("\u00e9\ud83d\ude00")"},
          {"{{ [1, 2] | tojson(separators=(',', ':')) }}", "[1,2]"},
          {"{{ no | tojson }}", "error: line 1: tojson of undefined"},
      },
      Json::parse(
          R"({"v": {"z": 1, "a": [1, 2.5, true, null, "é\"\\\n\u0001</x>"], "e": {}, "l": [], "f": 1.0}})"));
}

TEST(JinjaTest, JsonTextKeepsTheSpellingOfNumbers) {
  const auto value = FromJsonText(
      R"({"a": 1.50, "b": 123456789012345678901, "c": -1e5, "d": 7, "a": 2})", kRequest);
  ASSERT_TRUE(value.ok());
  Interpreter interpreter(Limits(), 0);
  const auto body = Parse("{{ v | tojson }} {{ v.b }} {{ v.c + 1 }}");
  const auto text = interpreter.Render(*body, {{"v", *value}});
  EXPECT_EQ(
      text->text(),
      R"({"a": 2, "b": 123456789012345678901, "c": -1e5, "d": 7} 123456789012345678901 -99999.0)");
  for (const char* bad : {"", "{", "[1,]", "{} {}", "nul", "\"\xFF\""}) {
    EXPECT_FALSE(FromJsonText(bad, kRequest).ok()) << bad;
  }
  EXPECT_FALSE(FromJsonText(std::string(200, '[') + std::string(200, ']'), kRequest).ok());
}

// --- provenance ---

// The bytes of the output that did not come from the template.
std::string RequestPart(std::string_view source, const Json& variables) {
  const auto text = RenderTagged(source, variables);
  EXPECT_TRUE(text.ok()) << text.status().message();
  if (!text.ok()) return "";
  std::string part;
  size_t begin = 0;
  for (const TaggedString::Run& run : text->runs()) {
    if (run.source != kTemplate) part += text->text().substr(begin, run.end - begin);
    begin = run.end;
  }
  return part;
}

TEST(JinjaTest, RequestTextStaysRequestTextThroughEverything) {
  const Json variables =
      Json::parse(R"({"x": " <T> ", "d": {"<K>": "<V>"}, "l": ["<A>", "<B>"], "m": "a\n<M>\nb"})");
  const std::vector<Case> cases = {
      {"<t>{{ x }}<t>", " <T> "},
      {"{{ '<t>' + x + '<t>' }}", " <T> "},
      {"{{ '<t>' ~ x ~ '<t>' }}", " <T> "},
      {"<t>{{ x | trim }}<t>", "<T>"},
      {"<t>{{ x | lower }}{{ x | upper }}{{ x | title }}{{ x | capitalize }}<t>",
       " <t>  <T>  <T>  <t> "},
      {"<t>{{ x.strip() }}{{ x.split('T')[0] }}{{ x.split() | last }}<t>", "<T> <<T>"},
      {"<t>{{ x[1:4] }}{{ x[::-1] }}{{ x[1] }}<t>", "<T> >T< <"},
      {"{{ x | replace(' ', '<t>') }}", "<T>"},
      {"{{ '<t>S<t>' | replace('S', x) }}", " <T> "},
      {"{{ l | join('<t>') }}", "<A><B>"},
      {"<t>{{ l | map('upper') | join }}", "<A><B>"},
      {"{{ d | tojson }}", "<K><V>"},
      {"{% for k, v in d.items() %}<t>{{ k }}={{ v }}{% endfor %}", "<K><V>"},
      {"{{ d }}{{ l }}", "<K><V><A><B>"},
      {"{{ '%s<t>' % x }}{{ '<t>%s' | format(x) }}", " <T>  <T> "},
      {"{{ strftime_now(x) }}{{ strftime_now('<t>') }}", " <T> "},
      {"{{ ['a', 'b'] | tojson(separators=(x, x)) }}", " <T> "},
      {"{{ m | indent(2) }}", "a\n<M>\nb"},
      {"{% set y %}<t>{{ x }}{% endset %}{{ y }}", " <T> "},
      {"{% macro f(a) %}<t>{{ a }}{% endmacro %}{{ f(x) }}", " <T> "},
      {"{% filter upper %}<t>{{ x }}{% endfilter %}", " <T> "},
      {"{% for c in x.strip() %}{{ c }}-{% endfor %}", "<T>"},
      {"{{ x * 2 }}", " <T>  <T> "},
      {"{{ x | e }}{{ x.strip() | urlencode }}", " &lt;T&gt; %3CT%3E"},
      {"{{ x | truncate(3, true, '', 0) }}", " <T"},
      {"{{ x | default('<t>') }}{{ x | string }}{{ x | safe }}{{ x | reverse }}",
       " <T>  <T>  <T>  >T< "},
      {"{{ l | sort(reverse=true) | first }}{{ l | max }}{{ d | dictsort | string }}",
       "<B><B><K><V>"},
      {"{{ namespace(a=x).a }}{{ dict(a=x).a }}{{ [x][0] }}{{ {'k': x}.k }}{{ x if true else '' "
       "}}{{ '' or x }}",
       " <T>  <T>  <T>  <T>  <T>  <T> "},
  };
  for (const Case& test : cases)
    EXPECT_EQ(RequestPart(test.source, variables), test.expected) << test.source;
}

TEST(JinjaTest, TaggedStringsKeepTheirRunsThroughCuts) {
  TaggedString text("ab", kTemplate);
  text.Append("cd", 3);
  text.Append("ef", 3);
  text.Append("g", kTemplate);
  EXPECT_EQ(text.runs().size(), 3u);
  const TaggedString middle = text.Substr(1, 4);
  EXPECT_EQ(middle.text(), "bcde");
  EXPECT_EQ(middle.runs(), (std::vector<TaggedString::Run>{{1, kTemplate}, {4, 3}}));
  for (size_t n = 0; n <= text.size(); ++n) {
    TaggedString cut = text;
    cut.Truncate(n);
    EXPECT_EQ(cut.runs(), text.Substr(0, n).runs()) << n;
  }
}

// --- hostile templates ---

// With smaller limits than usual, so that reaching them is quick also under sanitizers; the depth,
// which is what the stack must bear, is the usual one.
StatusCode FailureOf(std::string_view source) {
  Limits limits;
  limits.max_steps = 1'000'000;
  limits.max_bytes = int64_t{32} << 20;
  limits.max_output_bytes = int64_t{16} << 20;
  const std::clock_t start = std::clock();
  const auto text = RenderTagged(source, Json::object(), limits);
  EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, 20) << source;
  EXPECT_FALSE(text.ok()) << source;
  return text.status().code();
}

TEST(JinjaTest, TemplatesThatWantTooMuchFail) {
  const char* sources[] = {
      "{% for i in range(1000000000) %}{% endfor %}",
      "{% for i in range(3000) %}{% for j in range(3000) %}{% for k in range(3000) %}{% endfor "
      "%}{% endfor %}{% endfor %}",
      "{{ 'a' * 1000000000000 }}",
      "{{ 'aaaaaaaaaaaaaaaa' * 9223372036854775807 }}",
      "{{ [1] * 1000000000000 }}",
      "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x "
      "%}{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% "
      "endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = [ns.x, ns.x] %}{% "
      "endfor %}{{ ns.x }}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor "
      "%}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
      "{% set a = 'a' * 1000000 %}{% for i in range(1000) %}{{ a }}{% endfor %}",
      "{% set a = 'a' * 100000 %}{% for i in range(10000) %}{{ a | replace('a', "
      "'aaaaaaaaaaaaaaaaaaaa') | length }}{% endfor %}",
      "{% set a = 'a' * 4000000 %}{{ ('a' * 2000000 ~ 'b') in a }}",
      "{% set a = ('b' * 1000000) %}{{ a.strip('a' * 1000000 ~ 'b') }}",
      "{{ '%99999d' % 1 }}",
      "{{ [[1, 2]] * 1000000 | tojson(indent=64) }}",
  };
  for (const char* source : sources) {
    const StatusCode code = FailureOf(source);
    EXPECT_TRUE(code == StatusCode::kResourceExhausted || code == StatusCode::kInvalidArgument)
        << source;
  }
}

TEST(JinjaTest, NamespacesMayPointAtThemselves) {
  EXPECT_EQ(Render("{% set ns = namespace() %}{% set ns.ns = ns %}{% set ns.l = [ns] %}{{ ns.ns.l "
                   "| length }}{{ ns == ns.ns }}"),
            "1True");
  EXPECT_EQ(Render("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns | tojson }}"),
            "error: line 1: tojson of namespace");
}

TEST(JinjaTest, NestingIsLimitedWhileParsing) {
  const auto nested = [](const std::string& open, const std::string& close, int n) {
    std::string source;
    for (int i = 0; i < n; ++i) source += open;
    source += "1";
    for (int i = 0; i < n; ++i) source += close;
    return source;
  };
  for (const int n : {200, 100000}) {
    for (const std::string& source :
         {"{{ " + nested("(", ")", n) + " }}", "{{ " + nested("[", "]", n) + " }}",
          "{{ " + nested("not ", "", n) + " }}", "{{ " + nested("-", "", n) + " }}",
          "{{ " + nested("1 + ", "", n) + " }}", "{{ " + nested("1 if 1 else ", "", n) + " }}",
          "{{ " + nested("", " | abs", n) + " }}", "{{ a" + nested(".a", "", n) + " }}",
          nested("{% if 1 %}", "{% endif %}", n),
          nested("{% generation %}", "{% endgeneration %}", n),
          "{% set " + nested("(", ")", n) + " = 1 %}"}) {
      const auto body = Parse(source);
      ASSERT_FALSE(body.ok()) << source.substr(0, 40);
      EXPECT_EQ(body.status().code(), StatusCode::kInvalidArgument);
    }
  }
  EXPECT_TRUE(Parse("{{ " + nested("(", ")", 60) + " }}").ok());
}

TEST(JinjaTest, WhatIsNoJinjaIsRefusedWithItsLine) {
  for (const char* source : {"{{",
                             "{% if x %}",
                             "{% for x in y %}{% endif %}",
                             "{{ 'abc }}",
                             "{{ a b }}",
                             "{{ ) }}",
                             "{{ @ }}",
                             "{{ 1 + }}",
                             "{% foo %}",
                             "{% set %}",
                             "{% endif %}",
                             "{{ f(a=1, 2) }}",
                             "{# x",
                             "{% raw %}x",
                             "{{ x[1:2:3:4] }}",
                             "{{ x[] }}",
                             "{% include 'x' %}",
                             "{{ 99999999999999999999 }}",
                             "{{ '\\u12' }}",
                             "{% macro %}{% endmacro %}",
                             "{% if %}{% endif %}",
                             "{% for x in y recursive %}{% endfor %}",
                             "{% call f %}{% endcall %}",
                             "{{ x is }}",
                             "{{ x | }}",
                             "{{ {1} }}"}) {
    const auto body = Parse(source);
    ASSERT_FALSE(body.ok()) << source;
    EXPECT_THAT(body.status().message(), testing::StartsWith("line 1: ")) << source;
  }
}

}  // namespace
}  // namespace holdfast::jinja
