#include "cli/token_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <limits>
#include <memory>

#include "server/json.h"

namespace holdfast::cli {

Result<std::string> ReadFile(const std::string& path) {
  struct Close {
    void operator()(std::FILE* file) const {
      if (file != stdin) std::fclose(file);
    }
  };
  std::unique_ptr<std::FILE, Close> file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return ErrnoError(errno, path);
  constexpr size_t kMaxBytes = size_t{1} << 30;
  std::string text;
  char buffer[1 << 16];
  while (const size_t n = std::fread(buffer, 1, sizeof(buffer), file.get())) {
    if (text.size() + n > kMaxBytes) {
      return InvalidArgumentError(fmt::format("{}: longer than {} bytes", path, kMaxBytes));
    }
    text.append(buffer, n);
  }
  if (std::ferror(file.get()) != 0) return ErrnoError(errno, path);
  return text;
}

Result<std::vector<TokenId>> ReadTokenFile(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const Result<Json> json = ParseJson(text, {.max_values = 64 << 20});
  if (!json.ok()) {
    return InvalidArgumentError(fmt::format("{}: {}", path, json.status().message()));
  }
  const Json* ids = &*json;
  if (ids->is_object() && ids->contains("tokens")) ids = &(*ids)["tokens"];
  if (!ids->is_array() || ids->empty()) {
    return InvalidArgumentError(
        fmt::format("{}: wanted an array of token ids, or an object with \"tokens\"", path));
  }
  std::vector<TokenId> tokens;
  tokens.reserve(ids->size());
  for (const Json& id : *ids) {
    if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<TokenId>::max()) {
      return InvalidArgumentError(
          fmt::format("{}: token {} is {}, wanted an id", path, tokens.size(), ShortText(id)));
    }
    tokens.push_back(id.get<TokenId>());
  }
  return tokens;
}

}  // namespace holdfast::cli
