#include "grammar/multiple_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "grammar/decimal.h"

namespace holdfast {
namespace {

constexpr int64_t kMostResidues = 20'000;
constexpr int64_t kUnitsEnd = 1'000'000'000'000'000;  // behind all of kNumberDigits digits

int64_t PowerOfTen(int n) {
  int64_t power = 1;
  for (int i = 0; i < n; ++i) power *= 10;
  return power;
}

// A number as a count of the units 10^-decimals.
struct Scaled {
  int64_t units = 0;
  int decimals = 0;
};

Result<Scaled> ScaledOf(double value) {
  HF_ASSIGN_OR_RETURN(const Decimal decimal, DecimalOf(value));
  if (decimal.n_digits() > kNumberDigits) {
    return OutOfRangeError(fmt::format("{} needs more than {} digits", value, kNumberDigits));
  }
  return Scaled{std::stoll(decimal.whole + decimal.fraction),
                static_cast<int>(decimal.fraction.size())};
}

// Whole units in a number >= 0, at most kUnitsEnd, and whether something is left.
struct Units {
  int64_t whole = 0;
  bool rest = false;
};

Result<Units> UnitsOf(double value, int decimals) {
  HF_ASSIGN_OR_RETURN(const Decimal decimal, DecimalOf(value));
  if (decimal.whole.size() + static_cast<size_t>(decimals) > kNumberDigits &&
      decimal.whole != "0") {
    return Units{kUnitsEnd, false};
  }
  std::string digits = decimal.whole;
  for (int i = 0; i < decimals; ++i) {
    digits += static_cast<char>('0' + decimal.FractionDigit(static_cast<size_t>(i)));
  }
  return Units{std::stoll(digits), !decimal.NothingBehind(static_cast<size_t>(decimals))};
}

// The least count of units that is not below `bound`, or the largest that is not above it; those
// of the bound itself only when it is not `exclusive`.
Result<int64_t> UnitsFrom(double bound, bool exclusive, int decimals) {
  HF_ASSIGN_OR_RETURN(const Units units, UnitsOf(std::abs(bound), decimals));
  const int64_t up = bound >= 0 ? units.whole + (units.rest ? 1 : 0) : -units.whole;
  return up + (exclusive && !units.rest ? 1 : 0);
}
Result<int64_t> UnitsTo(double bound, bool exclusive, int decimals) {
  HF_ASSIGN_OR_RETURN(const int64_t units, UnitsFrom(-bound, exclusive, decimals));
  return -units;
}

// Decimal texts of multiples of `multiple` units. What counts of the digits so far is the residue
// of their number with zeros for the others: where that is none, the text may stop.
class MultipleTexts {
 public:
  MultipleTexts(GrammarBuilder* builder, Scaled multiple, StateId to)
      : builder_(*builder), multiple_(multiple.units), decimals_(multiple.decimals), to_(to) {}

  // Of at most so many places and residues.
  static int64_t Residues(int64_t multiple) {
    int64_t n = 0;
    for (int i = 1; i < kNumberDigits && n <= kMostResidues; ++i) {
      n += multiple / std::gcd(multiple, PowerOfTen(i));
    }
    return n;
  }

  // Those of [low, high] units, 0 <= low.
  void Add(StateId from, int64_t low, int64_t high) {
    for (int n_digits = decimals_ + 1; n_digits <= kNumberDigits; ++n_digits) {
      // No leading zero but that of 0 itself.
      const int64_t least = n_digits == decimals_ + 1 ? 0 : PowerOfTen(n_digits - 1);
      low_ = std::max(low, least);
      high_ = std::min(high, PowerOfTen(n_digits) - 1);
      if (low_ <= high_) AddBounded(from, n_digits, 0, true, true);
    }
  }

 private:
  // `from` stands behind the digits of `before`, with `n_left` more to come, and on the bounds.
  void AddBounded(StateId from, int n_left, int64_t before, bool at_low, bool at_high) {
    if (n_left <= decimals_ && before % multiple_ == 0 && low_ <= before && before <= high_) {
      builder_.Skip(from, to_);
    }
    if (n_left == 0 || builder_.overflowed()) return;
    if (n_left == decimals_) from = builder_.Text(from, ".");
    const int64_t unit = PowerOfTen(n_left - 1);
    const int64_t least = at_low ? low_ / unit % 10 : 0, most = at_high ? high_ / unit % 10 : 9;
    for (int64_t d = least; d <= most; ++d) {
      const bool low = at_low && d == least, high = at_high && d == most;
      const Symbol digit = static_cast<Symbol>('0' + d);
      if (low || high) {
        const StateId next = builder_.NewState();
        builder_.Read(from, digit, next);
        AddBounded(next, n_left - 1, before + d * unit, low, high);
      } else {
        ReadFree(from, digit, n_left - 1, (before + d * unit) % multiple_);
      }
    }
  }

  void ReadFree(StateId from, Symbol digit, int n_left, int64_t residue) {
    if (n_left > 0 || residue == 0) builder_.Read(from, digit, Free(n_left, residue));
  }

  // Between the bounds, whatever follows.
  StateId Free(int n_left, int64_t residue) {
    const auto [it, added] = free_.emplace(std::pair(n_left, residue), StateId{0});
    if (!added) return it->second;
    const StateId state = it->second = builder_.NewState();
    if (n_left <= decimals_ && residue == 0) builder_.Skip(state, to_);
    if (n_left == 0 || builder_.overflowed()) return state;
    const StateId reader = n_left == decimals_ ? builder_.Text(state, ".") : state;
    const int64_t unit = PowerOfTen(n_left - 1);
    for (int d = 0; d <= 9; ++d) {
      ReadFree(reader, static_cast<Symbol>('0' + d), n_left - 1, (residue + d * unit) % multiple_);
    }
    return state;
  }

  GrammarBuilder& builder_;
  const int64_t multiple_;
  const int decimals_;
  const StateId to_;
  int64_t low_ = 0, high_ = 0;
  std::map<std::pair<int, int64_t>, StateId> free_;
};

}  // namespace

bool IsMultiple(double value, double multiple) {
  const Result<Scaled> step = ScaledOf(multiple);
  if (!step.ok() || step->units == 0) return false;
  const Result<Units> units = UnitsOf(std::abs(value), step->decimals);
  return units.ok() && !units->rest && units->whole < kUnitsEnd && units->whole % step->units == 0;
}

Result<double> CommonMultiple(double a, double b) {
  HF_ASSIGN_OR_RETURN(Scaled x, ScaledOf(a));
  HF_ASSIGN_OR_RETURN(Scaled y, ScaledOf(b));
  if (x.units == 0 || y.units == 0) return InvalidArgumentError("a multiple of 0");
  const auto too_large = [&] {
    return OutOfRangeError(
        fmt::format("multiples of both {} and {} need more than {} digits", a, b, kNumberDigits));
  };
  for (auto [less, more] : {std::pair(&x, &y), std::pair(&y, &x)}) {
    while (less->decimals < more->decimals) {
      if (less->units >= kUnitsEnd / 10) return too_large();
      less->units *= 10;
      ++less->decimals;
    }
  }
  const int64_t factor = x.units / std::gcd(x.units, y.units);
  if (factor > kUnitsEnd / y.units) return too_large();
  return std::strtod(fmt::format("{}e-{}", factor * y.units, x.decimals).c_str(), nullptr);
}

Status AddMultiple(GrammarBuilder* builder, StateId from, const NumberBounds& bounds, StateId to) {
  HF_ASSIGN_OR_RETURN(Scaled multiple, ScaledOf(*bounds.multiple));
  if (multiple.units == 0) return InvalidArgumentError("a multiple of 0");
  if (bounds.integer) {
    multiple.units /= std::gcd(multiple.units, PowerOfTen(multiple.decimals));
    multiple.decimals = 0;
  }
  if (multiple.decimals >= kNumberDigits ||
      MultipleTexts::Residues(multiple.units) > kMostResidues) {
    return OutOfRangeError(fmt::format("multiples of {} need too many states", *bounds.multiple));
  }
  int64_t low = -kUnitsEnd, high = kUnitsEnd;
  if (bounds.low) {
    HF_ASSIGN_OR_RETURN(low, UnitsFrom(*bounds.low, bounds.low_exclusive, multiple.decimals));
  }
  if (bounds.high) {
    HF_ASSIGN_OR_RETURN(high, UnitsTo(*bounds.high, bounds.high_exclusive, multiple.decimals));
  }
  MultipleTexts texts(builder, multiple, to);
  if (high >= 0) texts.Add(from, std::max<int64_t>(low, 0), high);
  if (low < 0) {
    const StateId minus = builder->NewState();
    builder->Read(from, '-', minus);
    texts.Add(minus, std::max<int64_t>(-high, 1), -low);  // -0 is 0
  }
  return OkStatus();
}

}  // namespace holdfast
