// ECMAScript regular expressions to text machines: a parser, Thompson's construction over code
// points, and subsets.
//
// ^ and $ read two code points that no text has: a text is searched with the one before it and the
// other behind it.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "grammar/grammar.h"
#include "grammar/text_machine.h"
#include "token/utf8.h"

namespace holdfast {
namespace {

constexpr char32_t kBegin = kLastCodePoint + 2, kEnd = kLastCodePoint + 4;
constexpr int64_t kMaxRepeat = 1000;
constexpr int kMaxDepth = 50;
constexpr size_t kMaxPlaces = 5000;     // of the nondeterministic machine
constexpr size_t kMaxWork = 2'000'000;  // places looked at while it is made deterministic

struct Expression {
  enum class Kind { kSet, kSequence, kAlternatives, kRepeat };
  Kind kind = Kind::kSequence;
  CodePointSet set;
  std::vector<Expression> parts;  // of a repeat: one
  int64_t min = 0, max = 0;
};

const CodePointSet& Digits() {
  static const CodePointSet set = {{U'0', U'9'}};
  return set;
}
const CodePointSet& WordCharacters() {
  static const CodePointSet set = {{U'0', U'9'}, {U'A', U'Z'}, {U'_', U'_'}, {U'a', U'z'}};
  return set;
}
const CodePointSet& Spaces() {
  static const CodePointSet set = {
      {0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
      {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return set;
}
const CodePointSet& LineEnds() {
  static const CodePointSet set = {{0x0A, 0x0A}, {0x0D, 0x0D}, {0x2028, 0x2029}};
  return set;
}

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  Result<Expression> Parse() {
    Expression expression = Alternatives(0);
    if (error_.ok() && !text_.empty()) Fail("a ) without its (");
    if (!error_.ok()) return error_;
    return expression;
  }

 private:
  void Fail(std::string_view what) {
    if (error_.ok()) error_ = InvalidArgumentError(std::string(what));
    text_ = {};
  }
  void NotSupported(std::string_view what) {
    if (error_.ok()) error_ = UnimplementedError(fmt::format("{} is not supported", what));
    text_ = {};
  }
  bool Take(std::string_view word) {
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  char32_t TakeCodePoint() {
    const Utf8Char c = ReadUtf8(text_);
    text_.remove_prefix(c.n_bytes);
    return c.code_point;
  }

  Expression Alternatives(int depth) {
    Expression result{.kind = Expression::Kind::kAlternatives};
    if (depth > kMaxDepth) {
      Fail(fmt::format("more than {} groups inside each other", kMaxDepth));
      return result;
    }
    do {
      result.parts.push_back(Sequence(depth));
    } while (Take("|"));
    return result;
  }

  Expression Sequence(int depth) {
    Expression result{.kind = Expression::Kind::kSequence};
    while (!text_.empty() && text_.front() != '|' && text_.front() != ')') {
      Expression term = Term(depth);
      Quantify(&term);
      result.parts.push_back(std::move(term));
    }
    return result;
  }

  static Expression SetOf(CodePointSet set) {
    return {.kind = Expression::Kind::kSet, .set = std::move(set)};
  }

  Expression Term(int depth) {
    if (Take("^")) return SetOf({{kBegin, kBegin}});
    if (Take("$")) return SetOf({{kEnd, kEnd}});
    if (Take(".")) return SetOf(CodePointSet::All().Without(LineEnds()));
    if (Take("[")) return SetOf(Class());
    if (Take("(")) return Group(depth);
    if (Take("\\")) return SetOf(Escape(/*in_class=*/false));
    if (text_.find_first_of("*+?{") == 0) {
      Fail("a quantifier with nothing before it");
      return {};
    }
    const char32_t c = TakeCodePoint();
    return SetOf({{c, c}});
  }

  Expression Group(int depth) {
    if (text_.starts_with("?=") || text_.starts_with("?!") || text_.starts_with("?<=") ||
        text_.starts_with("?<!")) {
      NotSupported("looking ahead or behind");
      return {};
    }
    if (Take("?<")) {
      const size_t end = text_.find('>');
      if (end == std::string_view::npos) Fail("a group's name without its >");
      if (error_.ok()) text_.remove_prefix(end + 1);
    } else if (text_.starts_with("?") && !Take("?:")) {
      NotSupported("a group with flags");
    }
    Expression inner = Alternatives(depth + 1);
    if (!Take(")")) Fail("a ( without its )");
    return inner;
  }

  std::optional<int64_t> Number() {
    int64_t value = 0;
    size_t n = 0;
    for (; n < text_.size() && text_[n] >= '0' && text_[n] <= '9'; ++n) {
      value = std::min<int64_t>(value * 10 + (text_[n] - '0'), kMaxRepeat + 1);
    }
    if (n == 0) return std::nullopt;
    text_.remove_prefix(n);
    return value;
  }

  void Quantify(Expression* term) {
    int64_t min = 0, max = kUnlimited;
    if (Take("+")) {
      min = 1;
    } else if (Take("?")) {
      max = 1;
    } else if (Take("{")) {
      const std::optional<int64_t> low = Number();
      if (!low) return Fail("a { without a number behind it");
      min = max = *low;
      if (Take(",")) max = Number().value_or(kUnlimited);
      if (!Take("}")) return Fail("a { without its }");
      if (max < min) return Fail("a quantifier with its numbers out of order");
      if (min > kMaxRepeat || (max > kMaxRepeat && max != kUnlimited)) {
        return Fail(fmt::format("a count above {}", kMaxRepeat));
      }
    } else if (!Take("*")) {
      return;
    }
    Take("?");  // the same strings, found in another order
    if (text_.find_first_of("*+?{") == 0) return Fail("a quantifier behind another one");
    if (term->kind == Expression::Kind::kSet && (term->set.Has(kBegin) || term->set.Has(kEnd))) {
      return Fail("a quantifier behind ^ or $");
    }
    Expression repeat{.kind = Expression::Kind::kRepeat, .min = min, .max = max};
    repeat.parts.push_back(std::move(*term));
    *term = std::move(repeat);
  }

  char32_t Hex(size_t n_digits) {
    char32_t value = 0;
    for (size_t i = 0; i < n_digits; ++i) {
      const std::string_view kHex = "0123456789abcdef";
      const size_t digit =
          text_.empty()
              ? std::string_view::npos
              : kHex.find(static_cast<char>(text_.front() | (text_.front() > '9' ? 32 : 0)));
      if (digit == std::string_view::npos) {
        Fail("an escape without its hexadecimal digits");
        return 0;
      }
      value = value * 16 + static_cast<char32_t>(digit);
      text_.remove_prefix(1);
    }
    return value;
  }

  char32_t UnicodeEscape() {
    char32_t c = 0;
    if (Take("{")) {
      const size_t end = text_.find('}');
      if (end == std::string_view::npos || end == 0 || end > 6) {
        Fail("\\u{ without its digits and }");
        return 0;
      }
      c = Hex(end);
      if (error_.ok()) text_.remove_prefix(1);
    } else {
      c = Hex(4);
      if (c >= 0xD800 && c <= 0xDBFF && Take("\\u")) {
        const char32_t second = Hex(4);
        c = second >= 0xDC00 && second <= 0xDFFF ? 0x10000 + ((c - 0xD800) << 10) + second - 0xDC00
                                                 : kLastCodePoint + 1;
      }
    }
    if (!CodePointSet::All().Has(c)) Fail("an escape of something that is no character");
    return c;
  }

  CodePointSet Escape(bool in_class) {
    if (text_.empty()) {
      Fail("a \\ at the end");
      return {};
    }
    const char32_t c = TakeCodePoint();
    const auto one = [](char32_t point) { return CodePointSet{{point, point}}; };
    switch (c) {
      case U'd':
        return Digits();
      case U'D':
        return CodePointSet::All().Without(Digits());
      case U'w':
        return WordCharacters();
      case U'W':
        return CodePointSet::All().Without(WordCharacters());
      case U's':
        return Spaces();
      case U'S':
        return CodePointSet::All().Without(Spaces());
      case U't':
        return one(0x09);
      case U'n':
        return one(0x0A);
      case U'v':
        return one(0x0B);
      case U'f':
        return one(0x0C);
      case U'r':
        return one(0x0D);
      case U'x':
        return one(Hex(2));
      case U'u':
        return one(UnicodeEscape());
      default:
        break;
    }
    if (c == U'b' && in_class) return one(0x08);
    if (c == U'0' && (text_.empty() || !Digits().Has(static_cast<char32_t>(text_.front())))) {
      return one(0);
    }
    if (WordCharacters().Has(c)) {
      NotSupported(fmt::format("\\{}", static_cast<char>(c)));
      return {};
    }
    return one(c);
  }

  CodePointSet Class() {
    const bool negated = Take("^");
    CodePointSet set;
    while (!text_.empty() && text_.front() != ']') {
      bool is_class = false;
      const CodePointSet low = ClassAtom(&is_class);
      if (text_.size() > 1 && text_.front() == '-' && text_[1] != ']') {
        text_.remove_prefix(1);
        bool high_is_class = false;
        const CodePointSet high = ClassAtom(&high_is_class);
        if (!error_.ok()) return {};
        if (is_class || high_is_class || high.ranges()[0].low < low.ranges()[0].low) {
          Fail("a range out of order");
          return {};
        }
        set.Add(low.ranges()[0].low, high.ranges()[0].low);
      } else {
        set.Add(low);
      }
    }
    if (!Take("]")) Fail("a [ without its ]");
    return negated ? CodePointSet::All().Without(set) : set.And(CodePointSet::All());
  }

  CodePointSet ClassAtom(bool* is_class) {
    if (Take("\\")) {
      *is_class = text_.find_first_of("dDwWsS") == 0;
      return Escape(/*in_class=*/true);
    }
    const char32_t c = TakeCodePoint();
    return {{c, c}};
  }

  std::string_view text_;
  Status error_;
};

// Thompson's machine.
class Places {
 public:
  struct Place {
    CodePointSet set;
    int32_t to = -1;  // by `set`
    std::vector<int32_t> skips;
  };

  int32_t New() {
    if (places_.size() < kMaxPlaces) places_.emplace_back();
    return static_cast<int32_t>(places_.size()) - 1;
  }
  bool full() const { return places_.size() >= kMaxPlaces; }
  const Place& operator[](int32_t i) const { return places_[static_cast<size_t>(i)]; }
  size_t size() const { return places_.size(); }

  void Skip(int32_t from, int32_t to) { at(from).skips.push_back(to); }
  int32_t Read(int32_t from, const CodePointSet& set) {
    const int32_t reader = New(), next = New();
    Skip(from, reader);
    at(reader).set = set;
    at(reader).to = next;
    return next;
  }
  // Anything of `set`, any number of times.
  int32_t Loop(int32_t from, const CodePointSet& set) {
    const int32_t loop = New();
    Skip(from, loop);
    Skip(Read(loop, set), loop);
    return loop;
  }

  int32_t Add(int32_t from, const Expression& expression) {
    if (full()) return from;
    switch (expression.kind) {
      case Expression::Kind::kSet:
        return Read(from, expression.set);
      case Expression::Kind::kSequence:
        for (const Expression& part : expression.parts) from = Add(from, part);
        return from;
      case Expression::Kind::kAlternatives: {
        const int32_t end = New();
        for (const Expression& part : expression.parts) {
          const int32_t begin = New();
          Skip(from, begin);
          Skip(Add(begin, part), end);
        }
        return end;
      }
      case Expression::Kind::kRepeat:
        return AddRepeat(from, expression);
    }
    return from;
  }

 private:
  Place& at(int32_t i) { return places_[static_cast<size_t>(i)]; }

  int32_t AddRepeat(int32_t from, const Expression& repeat) {
    const Expression& part = repeat.parts.front();
    for (int64_t i = 0; i < repeat.min && !full(); ++i) from = Add(from, part);
    const int32_t end = New();
    if (repeat.max == kUnlimited) {
      const int32_t loop = New();
      Skip(from, loop);
      Skip(Add(loop, part), loop);
      Skip(loop, end);
      return end;
    }
    for (int64_t i = repeat.min; i < repeat.max && !full(); ++i) {
      Skip(from, end);
      from = Add(from, part);
    }
    Skip(from, end);
    return end;
  }

  std::vector<Place> places_;
};

using Places32 = std::vector<int32_t>;  // ascending

Places32 Closure(const Places& places, Places32 todo) {
  std::vector<bool> seen(places.size());
  Places32 all;
  while (!todo.empty()) {
    const int32_t place = todo.back();
    todo.pop_back();
    if (seen[static_cast<size_t>(place)]) continue;
    seen[static_cast<size_t>(place)] = true;
    all.push_back(place);
    const auto& skips = places[place].skips;
    todo.insert(todo.end(), skips.begin(), skips.end());
  }
  std::ranges::sort(all);
  return all;
}

Places32 After(const Places& places, const Places32& from, char32_t c) {
  Places32 to;
  for (const int32_t place : from) {
    if (places[place].to >= 0 && places[place].set.Has(c)) to.push_back(places[place].to);
  }
  return Closure(places, std::move(to));
}

// Code points that no place of `from` tells apart, as sets.
std::vector<CodePointSet> Alike(const Places& places, const Places32& from) {
  std::vector<char32_t> cuts = {0, 0xD800, 0xE000, kLastCodePoint + 1};
  for (const int32_t place : from) {
    for (const CodePointRange& range : places[place].set.ranges()) {
      cuts.push_back(range.low);
      cuts.push_back(range.high + 1);
    }
  }
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::map<std::vector<bool>, CodePointSet> sets;
  for (size_t i = 0; i + 1 < cuts.size() && cuts[i] <= kLastCodePoint; ++i) {
    if (cuts[i] >= 0xD800 && cuts[i] < 0xE000) continue;
    std::vector<bool> readers;
    for (const int32_t place : from) readers.push_back(places[place].set.Has(cuts[i]));
    sets[std::move(readers)].Add(cuts[i], cuts[i + 1] - 1);
  }
  std::vector<CodePointSet> result;
  for (auto& [readers, set] : sets) {
    if (std::ranges::find(readers, true) != readers.end()) result.push_back(std::move(set));
  }
  return result;
}

}  // namespace

Result<TextMachine> MachineOfPattern(std::string_view pattern) {
  HF_ASSIGN_OR_RETURN(const Expression expression, PatternParser(pattern).Parse());
  CodePointSet before = CodePointSet::All(), behind = CodePointSet::All();
  before.Add(kBegin, kBegin);
  behind.Add(kEnd, kEnd);
  Places places;
  const int32_t start = places.New();
  const int32_t found = places.Loop(places.Add(places.Loop(start, before), expression), behind);
  if (places.full()) return OutOfRangeError("it is too large");

  const Places32 first = After(places, Closure(places, {start}), kBegin);
  std::map<Places32, int32_t> known = {{first, 0}};
  std::vector<Places32> subsets = {first};
  TextMachine machine;
  size_t work = 0;
  for (size_t i = 0; i < subsets.size(); ++i) {
    if (subsets.size() > kMaxTextNodes || work > kMaxWork) {
      return OutOfRangeError("it needs too many states");
    }
    TextMachine::Node node;
    const Places32 ended = After(places, subsets[i], kEnd);
    node.accepts = std::ranges::binary_search(ended, found);
    for (CodePointSet& set : Alike(places, subsets[i])) {
      Places32 next = After(places, subsets[i], set.ranges().front().low);
      work += subsets[i].size() + next.size();
      if (next.empty()) continue;
      const auto [it, added] = known.emplace(next, static_cast<int32_t>(subsets.size()));
      if (added) subsets.push_back(std::move(next));
      node.edges.push_back({std::move(set), it->second});
    }
    machine.nodes.push_back(std::move(node));
  }
  return machine;
}

}  // namespace holdfast
