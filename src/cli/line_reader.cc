#include "cli/line_reader.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace holdfast::cli {

LineReader::Outcome LineReader::Next(std::string* line) {
  constexpr size_t kMaxLine = 16 << 20;
  while (true) {
    const size_t end = buffer_.find('\n');
    if (end != std::string::npos) {
      *line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      if (line->ends_with('\r')) line->pop_back();
      return Outcome::kLine;
    }
    if (ended_ || buffer_.size() > kMaxLine) {
      *line = std::exchange(buffer_, {});
      return line->empty() || !ended_ ? Outcome::kEnd : Outcome::kLine;
    }
    char bytes[4096];
    const ssize_t n = ::read(fd_, bytes, sizeof(bytes));
    if (n > 0) {
      buffer_.append(bytes, static_cast<size_t>(n));
    } else if (n < 0 && errno == EINTR) {
      return Outcome::kInterrupted;
    } else {
      ended_ = true;
    }
  }
}

}  // namespace holdfast::cli
