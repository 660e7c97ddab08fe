#ifndef HOLDFAST_STATE_LAYOUT_H_
#define HOLDFAST_STATE_LAYOUT_H_

// The one place that knows what a conversation's state is.
//
// From the model's configuration and the KV format it lists, in a fixed order, the parts of a page
// (cells of a fixed run of tokens, for every layer) and of the running state (what a recurrent
// model carries at one position). Parking, checkpoints, sessions, hashing, read limits and the
// memory plan walk these lists; nothing else computes a size.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ops/kv_format.h"
#include "weights/model_config.h"

namespace holdfast {

enum class PartKind : uint8_t {
  // Cells, in a page.
  kKeys = 1,       // codes or floats [n_kv_heads, page_tokens, head_dim]
  kKeyScales = 2,  // fp16 [n_kv_heads, page_tokens, head_dim / group], int8 only
  kValues = 3,
  kValueScales = 4,
  kPooledKeys = 5,  // f32 [index_dim, page_tokens / ratio]
  // Running state.
  kGdnState = 16,     // f32 [n_value_heads, head_dim (key), head_dim (value)]
  kGdnConv = 17,      // f32 [conv_kernel - 1, channels], oldest first
  kIndexerTail = 18,  // f32 [ratio - 1, index_dim], raw keys of the incomplete block
  kPleConv = 19,      // f32 [(conv_kernel - 1) * dilation, streams * hidden], oldest first
  kHandover = 20,     // f32 [streams, hidden], the trunk's streams of the last row (draft only)
};

std::string_view PartKindName(PartKind kind);

struct Part {
  PartKind kind;
  int layer;      // as in the file; the draft layer is n_layers
  size_t offset;  // in the page or in the running state; 64-byte aligned
  size_t bytes;
  // Cell parts: `n_runs` runs, each of page_tokens / tokens_per_item items of equal size.
  int n_runs = 1;
  int tokens_per_item = 1;
};

// Which buffers a layout describes: the trunk's, or those of the draft (MTP) layer, which are
// separate so that a conversation without a draft part stays whole.
enum class StateSection : uint8_t { kTrunk = 0, kDraft = 1 };

class StateLayout {
 public:
  static constexpr int kDefaultPageTokens = 256;
  static constexpr size_t kPageAlignment = 4096;

  // `page_tokens` must be a positive multiple of every block ratio; kInvalidArgument otherwise.
  static Result<StateLayout> Create(const ModelConfig& config, KvFormat format,
                                    StateSection section = StateSection::kTrunk,
                                    int page_tokens = kDefaultPageTokens);

  StateSection section() const { return section_; }
  KvFormat kv_format() const { return format_; }
  int page_tokens() const { return page_tokens_; }
  const std::vector<Part>& cell_parts() const { return cell_parts_; }
  const std::vector<Part>& running_parts() const { return running_parts_; }
  // Size of one page's buffer, a multiple of kPageAlignment.
  size_t page_bytes() const { return page_bytes_; }
  size_t running_bytes() const { return running_bytes_; }
  // Sum of the cell parts divided by page_tokens, before alignment.
  double bytes_per_token() const;
  int64_t PagesFor(int64_t n_tokens) const { return (n_tokens + page_tokens_ - 1) / page_tokens_; }
  // The part, or null when this layout has none such.
  const Part* FindCell(int layer, PartKind kind) const;
  const Part* FindRunning(int layer, PartKind kind) const;

  // Hash of everything above: two layouts with equal keys hold the same bytes in the same places.
  uint64_t key() const { return key_; }
  // Zeroes what belongs to tokens from `first_token` of a page on: the cells of a partial page
  // behind its last token may be another conversation's. `page` is page_bytes() long.
  void ClearCells(std::span<std::byte> page, int first_token) const;
  // A table for people: parts, bytes per token, bytes of a page and of a running state.
  std::string Describe() const;

 private:
  StateSection section_ = StateSection::kTrunk;
  KvFormat format_ = KvFormat::kInt8;
  int page_tokens_ = 0;
  std::vector<Part> cell_parts_, running_parts_;
  size_t page_bytes_ = 0, running_bytes_ = 0;
  uint64_t key_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_STATE_LAYOUT_H_
