#include "token/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>
#include <limits>
#include <string>

#include "token/utf8.h"
#include "weights/gguf_value.h"

namespace holdfast {
namespace {

// PCRE2's \s with UCP also takes U+180E, which Unicode no longer calls white space; hence the
// classes spelled out: [\t-\r\x{85}\p{Z}] is \s, its negation \S.
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\t-\r\x{85}\p{Z}\p{L}\p{M}\p{N}]+[\r\n]*|[\t-\r\x{85}\p{Z}]*[\r\n]+|)"
    R"([\t-\r\x{85}\p{Z}]+(?![^\t-\r\x{85}\p{Z}])|[\t-\r\x{85}\p{Z}]+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\t-\r\x{85}\p{Z}\p{L}\p{N}]+[\r\n]*|[\t-\r\x{85}\p{Z}]*[\r\n]+|)"
    R"([\t-\r\x{85}\p{Z}]+(?![^\t-\r\x{85}\p{Z}])|[\t-\r\x{85}\p{Z}]+)";

PCRE2_SPTR Units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

struct MatchDataFree {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct MatchContextFree {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

struct Pretokenizer::Code {
  pcre2_code* code = nullptr;
  std::unique_ptr<pcre2_match_context, MatchContextFree> context;

  ~Code() { pcre2_code_free(code); }
};

Pretokenizer::Pretokenizer(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Pretokenizer::Pretokenizer(Pretokenizer&&) noexcept = default;
Pretokenizer& Pretokenizer::operator=(Pretokenizer&&) noexcept = default;
Pretokenizer::~Pretokenizer() = default;

Result<Pretokenizer> Pretokenizer::Create(std::string_view name) {
  std::string_view pattern;
  if (name == "qwen35") {
    pattern = kQwen35;
  } else if (name == "qwen2") {
    pattern = kQwen2;
  } else {
    return UnimplementedError("tokenizer.ggml.pre is " + Quoted(name) +
                              "; this program knows \"qwen35\" and \"qwen2\"");
  }
  auto code = std::make_unique<Code>();
  int error = 0;
  PCRE2_SIZE offset = 0;
  code->code = pcre2_compile(Units(pattern), pattern.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED,
                             &error, &offset, nullptr);
  if (code->code == nullptr) {
    return InternalError("the pre-tokenizer expression does not compile: PCRE2 error " +
                         std::to_string(error) + " at " + std::to_string(offset));
  }
  // Without JIT (some hardened systems) the interpreter gives the same matches, slower.
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);
  code->context.reset(pcre2_match_context_create(nullptr));
  if (code->context == nullptr) return ResourceExhaustedError("no memory for PCRE2");
  // The expression is linear, so the limits that guard against others only get in the way of runs
  // of a million spaces.
  pcre2_set_match_limit(code->context.get(), std::numeric_limits<uint32_t>::max());
  pcre2_set_depth_limit(code->context.get(), std::numeric_limits<uint32_t>::max());
  return Pretokenizer(std::move(code));
}

std::vector<std::string_view> Pretokenizer::Split(std::string_view text) const {
  std::vector<std::string_view> pieces;
  pieces.reserve(text.size() / 4 + 1);
  const std::unique_ptr<pcre2_match_data, MatchDataFree> match(pcre2_match_data_create(1, nullptr));
  size_t pos = 0;
  while (pos < text.size()) {
    size_t end = 0;
    // The caller's text is valid: without NO_UTF_CHECK every match would check the rest again.
    if (match != nullptr &&
        pcre2_match(code_->code, Units(text), text.size(), pos, PCRE2_NO_UTF_CHECK, match.get(),
                    code_->context.get()) > 0) {
      end = pcre2_get_ovector_pointer(match.get())[1];
    }
    // Every character is covered by some alternative; should a limit of PCRE2's own (memory) still
    // be hit, the character becomes a piece and no byte is lost.
    if (end <= pos) end = pos + ReadUtf8(text.substr(pos)).n_bytes;
    pieces.push_back(text.substr(pos, end - pos));
    pos = end;
  }
  return pieces;
}

}  // namespace holdfast
