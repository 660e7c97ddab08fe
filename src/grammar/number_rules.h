#ifndef HOLDFAST_GRAMMAR_NUMBER_RULES_H_
#define HOLDFAST_GRAMMAR_NUMBER_RULES_H_

#include <optional>

#include "base/status.h"
#include "grammar/decimal.h"
#include "grammar/grammar.h"

namespace holdfast {

struct NumberBounds {
  bool integer = false;
  std::optional<double> low, high;
  bool low_exclusive = false, high_exclusive = false;
  std::optional<double> multiple;  // of this, as it is written in decimals; above 0

  bool Accepts(double value) const;
};

// JSON numbers within `bounds`, from `from` to `to`. Integers have at most kNumberDigits digits;
// numbers with bounds are written without an exponent, those without have one of at most two
// digits; multiples have no more decimals than what they are multiples of. kOutOfRange for bounds
// that need more digits, or a multiple that needs too many states.
Status AddNumber(GrammarBuilder* builder, StateId from, const NumberBounds& bounds, StateId to);

}  // namespace holdfast

#endif  // HOLDFAST_GRAMMAR_NUMBER_RULES_H_
