#include "cli/logits.h"

#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <vector>

#include "cli/direct_model.h"
#include "cli/token_file.h"
#include "engine/logits_row.h"
#include "model/sequence.h"

namespace holdfast::cli {

static_assert(std::endian::native == std::endian::little, "rows are written as they lie in memory");

Status RunLogits(const LogitsOptions& options, std::ostream& out) {
  if (options.last < 0 || options.chunk < 0) {
    return InvalidArgumentError(fmt::format(
        "--last is {} and --chunk is {}, both must be at least 0", options.last, options.chunk));
  }
  HF_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, ReadTokenFile(options.tokens_path));
  HF_ASSIGN_OR_RETURN(const DirectModel direct, LoadDirect(options.model));
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, Close> file(std::fopen(options.out_path.c_str(), "wb"));
  if (file == nullptr) return ErrnoError(errno, options.out_path);

  const int64_t n = static_cast<int64_t>(tokens.size());
  const int64_t first = options.last > 0 && options.last < n ? n - options.last : 0;
  HF_ASSIGN_OR_RETURN(Sequence sequence, Sequence::Create(direct.model.get()));
  Status status;
  HF_RETURN_IF_ERROR(sequence.Read(
      tokens, options.chunk, first, [&](int64_t position, std::span<const float> logits) {
        if (!status.ok()) return;
        if (std::fwrite(logits.data(), sizeof(float), logits.size(), file.get()) != logits.size()) {
          status = ErrnoError(errno, options.out_path);
          return;
        }
        const Result<RowMax> max = FindMax(logits);
        if (!max.ok()) {
          status = InternalError(fmt::format("position {}: {}", position, max.status().message()));
          return;
        }
        out << fmt::format("{{\"position\":{},\"argmax\":{}}}\n", position, max->id);
      }));
  HF_RETURN_IF_ERROR(status);
  if (std::fflush(file.get()) != 0) return ErrnoError(errno, options.out_path);
  return OkStatus();
}

}  // namespace holdfast::cli
