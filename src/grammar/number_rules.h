#ifndef HOLDFAST_GRAMMAR_NUMBER_RULES_H_
#define HOLDFAST_GRAMMAR_NUMBER_RULES_H_

#include <optional>

#include "base/status.h"
#include "grammar/grammar.h"

namespace holdfast {

struct NumberBounds {
  bool integer = false;
  std::optional<double> low, high;
  bool low_exclusive = false, high_exclusive = false;

  bool Accepts(double value) const;
};

// More digits would not survive the way through a double.
inline constexpr int kNumberDigits = 15;

// JSON numbers within `bounds`, from `from` to `to`. Integers have at most kNumberDigits digits;
// numbers with bounds are written without an exponent, those without have one of at most two
// digits. kOutOfRange for bounds that need more digits.
Status AddNumber(GrammarBuilder* builder, StateId from, const NumberBounds& bounds, StateId to);

}  // namespace holdfast

#endif  // HOLDFAST_GRAMMAR_NUMBER_RULES_H_
