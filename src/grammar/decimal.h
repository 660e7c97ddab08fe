#ifndef HOLDFAST_GRAMMAR_DECIMAL_H_
#define HOLDFAST_GRAMMAR_DECIMAL_H_

#include <cstddef>
#include <string>

#include "base/status.h"

namespace holdfast {

// More digits would not survive the way through a double.
inline constexpr int kNumberDigits = 15;

// A number >= 0, digit by digit.
struct Decimal {
  std::string whole = "0";  // without leading zeros
  std::string fraction;     // without trailing zeros

  int FractionDigit(size_t i) const { return i < fraction.size() ? fraction[i] - '0' : 0; }
  bool NothingBehind(size_t n_fraction) const { return n_fraction >= fraction.size(); }
  size_t n_digits() const { return whole.size() + fraction.size(); }
};

// The shortest that is `value` >= 0 as a double. kOutOfRange past kNumberDigits decimals.
Result<Decimal> DecimalOf(double value);

}  // namespace holdfast

#endif  // HOLDFAST_GRAMMAR_DECIMAL_H_
