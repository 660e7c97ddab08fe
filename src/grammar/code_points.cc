#include "grammar/code_points.h"

#include <algorithm>

namespace holdfast {

CodePointSet::CodePointSet(std::initializer_list<CodePointRange> ranges) {
  for (const CodePointRange& range : ranges) Add(range.low, range.high);
}

CodePointSet CodePointSet::All() { return {{0, 0xD7FF}, {0xE000, kLastCodePoint}}; }

void CodePointSet::Add(char32_t low, char32_t high) {
  std::vector<CodePointRange> merged;
  for (const CodePointRange& range : ranges_) {
    if (range.high + 1 < low || range.low > high + 1) {
      merged.push_back(range);
    } else {
      low = std::min(low, range.low);
      high = std::max(high, range.high);
    }
  }
  merged.push_back({low, high});
  std::ranges::sort(merged);
  ranges_ = std::move(merged);
}

void CodePointSet::Add(const CodePointSet& other) {
  for (const CodePointRange& range : other.ranges_) Add(range.low, range.high);
}

CodePointSet CodePointSet::Without(const CodePointSet& other) const {
  CodePointSet result;
  size_t next = 0;
  for (const CodePointRange& range : ranges_) {
    char32_t low = range.low;
    while (next < other.ranges_.size() && other.ranges_[next].high < low) ++next;
    size_t i = next;
    for (; i < other.ranges_.size() && other.ranges_[i].low <= range.high; ++i) {
      const CodePointRange& hole = other.ranges_[i];
      if (hole.low > low) result.ranges_.push_back({low, hole.low - 1});
      low = hole.high + 1;
      if (low > range.high) break;
    }
    if (low <= range.high) result.ranges_.push_back({low, range.high});
  }
  return result;
}

CodePointSet CodePointSet::And(const CodePointSet& other) const { return Without(Without(other)); }

bool CodePointSet::Has(char32_t c) const {
  return std::ranges::any_of(ranges_,
                             [&](const CodePointRange& r) { return r.low <= c && c <= r.high; });
}

std::vector<std::vector<DigitRange>> SplitIntoDigits(uint32_t low, uint32_t high, int n_digits,
                                                     int bits) {
  if (n_digits == 1) return {{{low, high}}};
  const int shift = bits * (n_digits - 1);
  const uint32_t rest = (uint32_t{1} << shift) - 1;
  const uint32_t first = low >> shift, last = high >> shift;
  std::vector<std::vector<DigitRange>> rows;
  const auto add = [&](DigitRange digit, uint32_t rest_low, uint32_t rest_high) {
    for (auto& tail : SplitIntoDigits(rest_low, rest_high, n_digits - 1, bits)) {
      tail.insert(tail.begin(), digit);
      rows.push_back(std::move(tail));
    }
  };
  if (first == last) {
    add({first, last}, low & rest, high & rest);
    return rows;
  }
  uint32_t full_first = first, full_last = last;
  if ((low & rest) != 0) {
    add({first, first}, low & rest, rest);
    ++full_first;
  }
  if ((high & rest) != rest) --full_last;
  if (full_first <= full_last) add({full_first, full_last}, 0, rest);
  if ((high & rest) != rest) add({last, last}, 0, high & rest);
  return rows;
}

}  // namespace holdfast
