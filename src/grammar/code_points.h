#ifndef HOLDFAST_GRAMMAR_CODE_POINTS_H_
#define HOLDFAST_GRAMMAR_CODE_POINTS_H_

#include <compare>
#include <cstdint>
#include <vector>

namespace holdfast {

struct CodePointRange {
  char32_t low = 0, high = 0;  // inclusive
  auto operator<=>(const CodePointRange&) const = default;
};

inline constexpr char32_t kLastCodePoint = 0x10FFFF;

// A set of code points: ascending ranges that do not touch.
class CodePointSet {
 public:
  CodePointSet() = default;
  CodePointSet(std::initializer_list<CodePointRange> ranges);
  // Everything that a text may hold: all but the surrogates.
  static CodePointSet All();

  void Add(char32_t low, char32_t high);
  void Add(const CodePointSet& other);
  CodePointSet Without(const CodePointSet& other) const;
  CodePointSet And(const CodePointSet& other) const;
  bool Has(char32_t c) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<CodePointRange>& ranges() const { return ranges_; }
  auto operator<=>(const CodePointSet&) const = default;

 private:
  std::vector<CodePointRange> ranges_;
};

// [low, high] as digits of `bits` bits each, most significant first: every number of the range has
// its digits in exactly one of the rows, each digit in that row's range.
struct DigitRange {
  uint32_t low = 0, high = 0;
};
std::vector<std::vector<DigitRange>> SplitIntoDigits(uint32_t low, uint32_t high, int n_digits,
                                                     int bits);

}  // namespace holdfast

#endif  // HOLDFAST_GRAMMAR_CODE_POINTS_H_
