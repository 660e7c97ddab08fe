#ifndef HOLDFAST_CLI_LINE_READER_H_
#define HOLDFAST_CLI_LINE_READER_H_

#include <string>

namespace holdfast::cli {

// Lines of a file descriptor, with reads that Ctrl-C interrupts.
class LineReader {
 public:
  enum class Outcome { kLine, kEnd, kInterrupted };

  explicit LineReader(int fd) : fd_(fd) {}

  // Waits for a line and puts it into *line without its end ("\n" or "\r\n"). The last line needs
  // none. Lines of more than 16 MiB end the input.
  Outcome Next(std::string* line);
  // Drops what was typed but not finished.
  void DropPartialLine() { buffer_.clear(); }

 private:
  const int fd_;
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_LINE_READER_H_
