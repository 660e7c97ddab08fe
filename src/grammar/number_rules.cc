#include "grammar/number_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "grammar/multiple_rules.h"

namespace holdfast {
namespace {

constexpr double kLargest = 999'999'999'999'999.0;  // of kNumberDigits digits

// Decimal texts of [low, high], both >= 0: the digits are compared with both bounds as they come.
class DecimalRange {
 public:
  DecimalRange(GrammarBuilder* builder, Decimal low, bool low_exclusive, Decimal high,
               bool high_exclusive, bool integer, StateId to)
      : builder_(*builder),
        low_(std::move(low)),
        high_(std::move(high)),
        low_exclusive_(low_exclusive),
        high_exclusive_(high_exclusive),
        integer_(integer),
        to_(to) {}

  void Add(StateId from) {
    for (size_t n = low_.whole.size(); n <= high_.whole.size(); ++n) {
      states_.clear();
      fractions_.clear();
      // Never more digits than a double tells apart.
      n_fraction_ = integer_ ? 0 : kNumberDigits - n;
      builder_.Skip(from, Whole(n, 0, n == low_.whole.size(), n == high_.whole.size()));
    }
  }

 private:
  // `at_low`, `at_high`: the digits so far are the bound's.
  StateId Whole(size_t n, size_t i, bool at_low, bool at_high) {
    const auto [it, added] = states_.emplace(std::tuple(i, at_low, at_high), StateId{0});
    if (!added) return it->second;
    const StateId state = it->second = builder_.NewState();
    if (i == n) {
      if (MayStop(0, at_low, at_high)) builder_.Skip(state, to_);
      if (n_fraction_ > 0) {
        const StateId point = builder_.NewState();
        builder_.Read(state, '.', point);
        AddFractionDigits(point, 0, at_low, at_high);
      }
      return state;
    }
    const int least = at_low ? low_.whole[i] - '0' : i == 0 && n > 1 ? 1 : 0;
    const int most = at_high ? high_.whole[i] - '0' : 9;
    for (int d = least; d <= most; ++d) {
      const bool low = at_low && d == low_.whole[i] - '0';
      const bool high = at_high && d == high_.whole[i] - '0';
      builder_.Read(state, static_cast<Symbol>('0' + d), Whole(n, i + 1, low, high));
    }
    return state;
  }

  // Behind `i` digits of the fraction.
  StateId Fraction(size_t i, bool at_low, bool at_high) {
    const auto [it, added] = fractions_.emplace(std::tuple(i, at_low, at_high), StateId{0});
    if (!added) return it->second;
    const StateId state = it->second = builder_.NewState();
    if (MayStop(i, at_low, at_high)) builder_.Skip(state, to_);
    if (i < n_fraction_) AddFractionDigits(state, i, at_low, at_high);
    return state;
  }

  void AddFractionDigits(StateId state, size_t i, bool at_low, bool at_high) {
    const int least = at_low ? low_.FractionDigit(i) : 0;
    const int most = at_high ? high_.FractionDigit(i) : 9;
    for (int d = least; d <= most; ++d) {
      const bool low = at_low && d == low_.FractionDigit(i);
      const bool high = at_high && d == high_.FractionDigit(i);
      builder_.Read(state, static_cast<Symbol>('0' + d), Fraction(i + 1, low, high));
    }
  }

  bool MayStop(size_t n_fraction, bool at_low, bool at_high) const {
    const bool above = !at_low || (low_.NothingBehind(n_fraction) && !low_exclusive_);
    const bool below = !at_high || !(high_.NothingBehind(n_fraction) && high_exclusive_);
    return above && below;
  }

  GrammarBuilder& builder_;
  const Decimal low_, high_;
  const bool low_exclusive_, high_exclusive_;
  const bool integer_;
  const StateId to_;
  size_t n_fraction_ = 0;
  std::map<std::tuple<size_t, bool, bool>, StateId> states_, fractions_;
};

// Numbers of [low, high], 0 <= low.
Status AddMagnitudes(GrammarBuilder* builder, StateId from, bool integer, double low,
                     bool low_exclusive, double high, bool high_exclusive, StateId to) {
  if (low > high) return OkStatus();
  HF_ASSIGN_OR_RETURN(Decimal first, DecimalOf(low));
  HF_ASSIGN_OR_RETURN(Decimal last, DecimalOf(high));
  for (const Decimal* bound : {&first, &last}) {
    if (bound->whole.size() + bound->fraction.size() > kNumberDigits) {
      return OutOfRangeError(
          fmt::format("the bounds {} and {} need more than {} digits", low, high, kNumberDigits));
    }
  }
  DecimalRange(builder, std::move(first), low_exclusive, std::move(last), high_exclusive, integer,
               to)
      .Add(from);
  return OkStatus();
}

void AddUnbounded(GrammarBuilder* builder, StateId from, bool integer, StateId to) {
  const RuleId digit = builder->NewRule();
  builder->Read(builder->StartOf(digit), '0', '9', builder->NewFinal());
  const StateId sign = builder->NewState(), more = builder->NewState(), whole = builder->NewState();
  builder->Read(from, '-', sign);
  builder->Skip(from, sign);
  builder->Read(sign, '0', whole);
  builder->Read(sign, '1', '9', more);
  builder->Repeat(more, digit, 0, kNumberDigits - 1, whole);
  builder->Skip(whole, to);
  if (integer) return;
  const StateId fraction = builder->NewState(), point = builder->NewState();
  const StateId exponent = builder->NewState(), exponent_sign = builder->NewState();
  builder->Skip(whole, fraction);
  builder->Read(whole, '.', point);
  builder->Repeat(point, digit, 1, kNumberDigits, fraction);
  builder->Skip(fraction, to);
  builder->Read(fraction, 'e', exponent);
  builder->Read(fraction, 'E', exponent);
  builder->Read(exponent, '+', exponent_sign);
  builder->Read(exponent, '-', exponent_sign);
  builder->Skip(exponent, exponent_sign);
  builder->Repeat(exponent_sign, digit, 1, 2, to);
}

}  // namespace

bool NumberBounds::Accepts(double value) const {
  if (integer && value != std::floor(value)) return false;
  if (multiple && !IsMultiple(value, *multiple)) return false;
  if (low && (value < *low || (low_exclusive && value == *low))) return false;
  return !high || !(value > *high || (high_exclusive && value == *high));
}

Status AddNumber(GrammarBuilder* builder, StateId from, const NumberBounds& bounds, StateId to) {
  if (bounds.multiple) return AddMultiple(builder, from, bounds, to);
  if (!bounds.low && !bounds.high) {
    AddUnbounded(builder, from, bounds.integer, to);
    return OkStatus();
  }
  double low = std::max(bounds.low.value_or(-kLargest), -kLargest);
  double high = std::min(bounds.high.value_or(kLargest), kLargest);
  bool low_exclusive = bounds.low_exclusive && low == bounds.low;
  bool high_exclusive = bounds.high_exclusive && high == bounds.high;
  if (bounds.integer) {
    low = low_exclusive ? std::floor(low) + 1 : std::ceil(low);
    high = high_exclusive ? std::ceil(high) - 1 : std::floor(high);
    low_exclusive = high_exclusive = false;
  }
  if (low > high) return OkStatus();  // nothing
  if (high >= 0) {
    HF_RETURN_IF_ERROR(AddMagnitudes(builder, from, bounds.integer, std::max(low, 0.0),
                                     low_exclusive && low >= 0, high, high_exclusive, to));
  }
  if (low < 0) {
    const StateId minus = builder->NewState();
    builder->Read(from, '-', minus);
    // Below zero the bounds change places. -0 is 0.
    HF_RETURN_IF_ERROR(AddMagnitudes(builder, minus, bounds.integer, std::max(-high, 0.0),
                                     high < 0 ? high_exclusive : true, -low, low_exclusive, to));
  }
  return OkStatus();
}

}  // namespace holdfast
