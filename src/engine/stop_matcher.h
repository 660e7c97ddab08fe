#ifndef HOLDFAST_ENGINE_STOP_MATCHER_H_
#define HOLDFAST_ENGINE_STOP_MATCHER_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace holdfast {

// At most so many stop strings of at most so many bytes each.
inline constexpr size_t kMaxStopStrings = 64;
inline constexpr size_t kMaxStopBytes = 1024;

// OK, or kInvalidArgument: an empty stop string, or one of the limits above.
Status ValidateStopStrings(const std::vector<std::string>& stops);

// Finds the first stop string in a growing text, wherever its pieces are cut, and gives out only
// text that cannot be part of one.
//
// The stop string that ends first wins; of those that end at the same byte the longest. How the
// text is cut into pieces never changes the outcome.
class StopMatcher {
 public:
  // `stops` must have passed ValidateStopStrings; none: all text goes straight through.
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // What `text` makes certain. Once stopped() everything later is dropped.
  std::string Push(std::string_view text);
  // Ends the text: what was held back because it might have become a stop string.
  std::string Flush();

  bool stopped() const { return !matched_.empty(); }
  // The stop string that was found; it is not part of the text given out.
  const std::string& matched() const { return matched_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;  // the longest tail that begins a stop string
  std::string matched_;
};

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_STOP_MATCHER_H_
