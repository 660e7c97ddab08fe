#include "grammar/decimal.h"

#include <fmt/format.h>

#include <cstdlib>

namespace holdfast {

Result<Decimal> DecimalOf(double value) {
  std::string text = fmt::format("{:.{}f}", value, kNumberDigits);
  if (std::strtod(text.c_str(), nullptr) != value) {
    return OutOfRangeError(fmt::format("{} has more than {} decimals", value, kNumberDigits));
  }
  // The shortest that is still the same number.
  for (int n = 0; n < kNumberDigits; ++n) {
    const std::string shorter = fmt::format("{:.{}f}", value, n);
    if (std::strtod(shorter.c_str(), nullptr) != value) continue;
    text = shorter;
    break;
  }
  const size_t point = text.find('.');
  Decimal decimal{.whole = text.substr(0, point)};
  if (point != std::string::npos) decimal.fraction = text.substr(point + 1);
  return decimal;
}

}  // namespace holdfast
