#ifndef HOLDFAST_GRAMMAR_STRING_RULES_H_
#define HOLDFAST_GRAMMAR_STRING_RULES_H_

#include <map>
#include <optional>
#include <utility>

#include "grammar/code_points.h"
#include "grammar/grammar.h"
#include "grammar/text_machine.h"

namespace holdfast {

// How the value of a string is spelled.
enum class Spelling {
  kJson,  // inside quotes, with escapes
  kRaw,   // as it is, without zero bytes
};

// Rules for strings. Every way to spell a value is a text of its rule, and only valid UTF-8.
class StringRules {
 public:
  explicit StringRules(GrammarBuilder* builder) : builder_(*builder) {}

  // One character of `set`.
  RuleId Character(const CodePointSet& set, Spelling spelling);
  // The values that `machine` accepts, without quotes, from `from` to `to`.
  void Add(StateId from, const TextMachine& machine, Spelling spelling, StateId to);
  // Any value of `min` to `max` (or kUnlimited) characters of `set`, without quotes.
  void AddAny(StateId from, const CodePointSet& set, int32_t min, int32_t max, Spelling spelling,
              StateId to);

 private:
  void AddUtf8(StateId from, CodePointRange range, StateId to);
  void AddHex(StateId from, uint32_t low, uint32_t high, StateId to);
  void AddEscapes(StateId from, const CodePointSet& set, StateId to);

  GrammarBuilder& builder_;
  std::map<std::pair<Spelling, CodePointSet>, RuleId> characters_;
};

}  // namespace holdfast

#endif  // HOLDFAST_GRAMMAR_STRING_RULES_H_
