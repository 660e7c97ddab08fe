#ifndef HOLDFAST_GRAMMAR_MULTIPLE_RULES_H_
#define HOLDFAST_GRAMMAR_MULTIPLE_RULES_H_

#include "base/status.h"
#include "grammar/grammar.h"
#include "grammar/number_rules.h"

namespace holdfast {

// Multiples are meant as numbers are written, in decimals: 0.07 is one of 0.01, though their
// quotient as doubles is not whole.

// Whether `value` is a multiple of `multiple` > 0; false also for what has more digits than a
// double tells apart.
bool IsMultiple(double value, double multiple);

// The least number that is a multiple of both. kOutOfRange where it has more than kNumberDigits
// digits.
Result<double> CommonMultiple(double a, double b);

// Multiples of *bounds.multiple within `bounds`, from `from` to `to`: no more decimals than that
// has, and no exponent. kOutOfRange for what needs more digits or too many states.
Status AddMultiple(GrammarBuilder* builder, StateId from, const NumberBounds& bounds, StateId to);

}  // namespace holdfast

#endif  // HOLDFAST_GRAMMAR_MULTIPLE_RULES_H_
