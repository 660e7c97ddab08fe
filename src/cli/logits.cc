#include "cli/logits.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "cli/direct_model.h"
#include "cli/token_file.h"
#include "engine/logits_row.h"
#include "model/sequence.h"

namespace holdfast::cli {

static_assert(std::endian::native == std::endian::little, "rows are written as they lie in memory");

namespace {

// Says on standard error how far a long read is, every few seconds.
class Progress {
 public:
  explicit Progress(size_t n_tokens) : n_tokens_(n_tokens) {}
  void Report(size_t n_read) {
    const Clock::time_point now = Clock::now();
    if (n_read == n_tokens_ || now - last_ < kInterval) return;
    last_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    fmt::print(stderr, "{} of {} tokens, {:.0f} tokens/s\n", n_read, n_tokens_,
               static_cast<double>(n_read) / seconds);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kInterval{3};
  size_t n_tokens_;
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

// Writes rows to the file and their lines to `out`; the first thing that goes wrong is kept.
class RowWriter {
 public:
  RowWriter(const std::string& path, std::ostream* out)
      : path_(path), out_(out), file_(std::fopen(path.c_str(), "wb")) {
    if (file_ == nullptr) status_ = ErrnoError(errno, path_);
  }
  const Status& status() const { return status_; }
  void Write(int64_t position, std::span<const float> logits) {
    if (!status_.ok()) return;
    if (std::fwrite(logits.data(), sizeof(float), logits.size(), file_.get()) != logits.size()) {
      status_ = ErrnoError(errno, path_);
      return;
    }
    const Result<RowMax> max = FindMax(logits);
    if (!max.ok()) {
      status_ = InternalError(fmt::format("position {}: {}", position, max.status().message()));
      return;
    }
    *out_ << fmt::format("{{\"position\":{},\"argmax\":{}}}\n", position, max->id);
  }
  void Flush() {
    if (status_.ok() && std::fflush(file_.get()) != 0) status_ = ErrnoError(errno, path_);
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::ostream* out_;
  std::unique_ptr<std::FILE, Close> file_;
  Status status_;
};

}  // namespace

Status RunLogits(const LogitsOptions& options, std::ostream& out) {
  constexpr int64_t kMaxChunk = 8192, kDefaultChunk = 512;
  if (options.last < 0) {
    return InvalidArgumentError(fmt::format("--last is {}, wanted at least 0", options.last));
  }
  if (options.chunk < 0 || options.chunk > kMaxChunk) {
    return InvalidArgumentError(
        fmt::format("--chunk is {}, wanted 0 to {}", options.chunk, kMaxChunk));
  }
  HF_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, ReadTokenFile(options.tokens_path));
  HF_ASSIGN_OR_RETURN(const DirectModel direct,
                      LoadDirect(options.model, std::max(options.chunk, kDefaultChunk)));
  RowWriter rows(options.out_path, &out);
  HF_RETURN_IF_ERROR(rows.status());

  const int64_t n = static_cast<int64_t>(tokens.size());
  const int64_t first = options.last > 0 && options.last < n ? n - options.last : 0;
  HF_ASSIGN_OR_RETURN(Sequence sequence, Sequence::Create(direct.model.get()));
  Progress progress(tokens.size());
  const int64_t step = options.chunk == 0 ? kDefaultChunk : options.chunk;
  for (std::span<const TokenId> left = tokens; !left.empty();) {
    const auto some = left.first(std::min(left.size(), static_cast<size_t>(step)));
    left = left.subspan(some.size());
    HF_RETURN_IF_ERROR(sequence.Read(
        some, step, first,
        [&](int64_t position, std::span<const float> logits) { rows.Write(position, logits); }));
    HF_RETURN_IF_ERROR(rows.status());
    progress.Report(tokens.size() - left.size());
  }
  rows.Flush();
  return rows.status();
}

}  // namespace holdfast::cli
