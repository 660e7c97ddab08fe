#include "state/layout.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>
#include <map>

namespace holdfast {
namespace {

constexpr size_t kPartAlignment = 64;
// Raised when a part changes its meaning without changing its size.
constexpr uint64_t kLayoutVersion = 1;

size_t AlignUp(size_t n, size_t alignment) { return (n + alignment - 1) / alignment * alignment; }

size_t CellValueBytes(KvFormat format) {
  switch (format) {
    case KvFormat::kF32:
      return 4;
    case KvFormat::kF16:
      return 2;
    case KvFormat::kInt8:
      return 1;
  }
  return 0;
}

class PartList {
 public:
  void Add(PartKind kind, int layer, size_t bytes, int n_runs = 1, int tokens_per_item = 1) {
    parts_.push_back({kind, layer, end_, bytes, n_runs, tokens_per_item});
    end_ = AlignUp(end_ + bytes, kPartAlignment);
  }
  std::vector<Part> Take() { return std::move(parts_); }
  size_t end() const { return end_; }

 private:
  std::vector<Part> parts_;
  size_t end_ = 0;
};

// `ratio` 0: no indexer.
void AddQsaLayer(const ModelConfig& config, KvFormat format, int layer, size_t ratio,
                 size_t page_tokens, PartList* cells, PartList* running) {
  const size_t vectors = page_tokens * config.n_kv_heads;
  const size_t head_dim = config.head_dim;
  const size_t codes = vectors * head_dim * CellValueBytes(format);
  const size_t scales = vectors * (head_dim / CellGroup(config.head_dim)) * sizeof(uint16_t);
  for (bool key : {true, false}) {
    cells->Add(key ? PartKind::kKeys : PartKind::kValues, layer, codes, config.n_kv_heads);
    if (format == KvFormat::kInt8) {
      cells->Add(key ? PartKind::kKeyScales : PartKind::kValueScales, layer, scales,
                 config.n_kv_heads);
    }
  }
  if (ratio == 0) return;
  const size_t raw_key = sizeof(float) * config.index_dim;
  cells->Add(PartKind::kPooledKeys, layer, page_tokens / ratio * raw_key, config.index_dim,
             static_cast<int>(ratio));
  running->Add(PartKind::kIndexerTail, layer, (ratio - 1) * raw_key);
}

void AddGdnLayer(const ModelConfig& config, int layer, PartList* running) {
  const size_t dim = config.gdn_head_dim;
  running->Add(PartKind::kGdnState, layer, config.gdn_n_value_heads * dim * dim * sizeof(float));
  running->Add(PartKind::kGdnConv, layer,
               (config.gdn_conv_kernel - 1) * config.gdn_conv_channels() * sizeof(float));
  if (config.ple && config.ple->layer == layer) {
    const size_t columns = size_t{1} * (config.ple->conv_kernel - 1) * config.ple->ngram_size;
    running->Add(PartKind::kPleConv, layer, columns * config.hc_width() * sizeof(float));
  }
}

const Part* Find(const std::vector<Part>& parts, int layer, PartKind kind) {
  for (const Part& part : parts) {
    if (part.layer == layer && part.kind == kind) return &part;
  }
  return nullptr;
}

uint64_t HashParts(const std::vector<Part>& parts, uint64_t seed) {
  for (const Part& part : parts) {
    const uint64_t fields[] = {static_cast<uint64_t>(part.kind), static_cast<uint64_t>(part.layer),
                               part.offset, part.bytes};
    seed = XXH3_64bits_withSeed(fields, sizeof(fields), seed);
  }
  return seed;
}

std::string DescribeParts(const std::vector<Part>& parts) {
  std::map<PartKind, std::pair<int, size_t>> by_kind;
  for (const Part& part : parts) {
    ++by_kind[part.kind].first;
    by_kind[part.kind].second += part.bytes;
  }
  std::string text;
  for (const auto& [kind, count_bytes] : by_kind) {
    text += fmt::format("    {:<14} {:>3} layers {:>14} B\n", PartKindName(kind), count_bytes.first,
                        count_bytes.second);
  }
  return text;
}

}  // namespace

std::string_view PartKindName(PartKind kind) {
  switch (kind) {
    case PartKind::kKeys:
      return "keys";
    case PartKind::kKeyScales:
      return "key_scales";
    case PartKind::kValues:
      return "values";
    case PartKind::kValueScales:
      return "value_scales";
    case PartKind::kPooledKeys:
      return "pooled_keys";
    case PartKind::kGdnState:
      return "gdn_state";
    case PartKind::kGdnConv:
      return "gdn_conv";
    case PartKind::kIndexerTail:
      return "indexer_tail";
    case PartKind::kPleConv:
      return "ple_conv";
    case PartKind::kHandover:
      return "handover";
  }
  return "?";
}

Result<StateLayout> StateLayout::Create(const ModelConfig& config, KvFormat format,
                                        StateSection section, int page_tokens) {
  if (page_tokens <= 0) {
    return InvalidArgumentError(fmt::format("page of {} tokens, wanted at least 1", page_tokens));
  }
  const bool draft = section == StateSection::kDraft;
  const int first = draft ? config.n_layers : 0;
  const int last = draft ? config.n_layers + config.n_mtp_layers : config.n_layers;
  PartList cells, running;
  for (int layer = first; layer < last; ++layer) {
    if (config.layer_kinds[layer] == LayerKind::kGdn) {
      AddGdnLayer(config, layer, &running);
      continue;
    }
    // The draft layer attends to a window of its cells: no indexer (docs/decisions.md).
    const int ratio = draft ? 0 : config.block_ratio[layer];
    if (ratio != 0 && page_tokens % ratio != 0) {
      return InvalidArgumentError(
          fmt::format("page of {} tokens, wanted a multiple of layer {}'s block of {}", page_tokens,
                      layer, ratio));
    }
    AddQsaLayer(config, format, layer, ratio, page_tokens, &cells, &running);
  }
  if (draft && last > first) {
    running.Add(PartKind::kHandover, first, config.hc_width() * sizeof(float));
  }

  StateLayout layout;
  layout.section_ = section;
  layout.format_ = format;
  layout.page_tokens_ = page_tokens;
  layout.page_bytes_ = AlignUp(cells.end(), kPageAlignment);
  layout.running_bytes_ = running.end();
  layout.cell_parts_ = cells.Take();
  layout.running_parts_ = running.Take();
  const uint64_t head[] = {kLayoutVersion,
                           static_cast<uint64_t>(section),
                           static_cast<uint64_t>(format),
                           static_cast<uint64_t>(page_tokens),
                           layout.page_bytes_,
                           layout.running_bytes_};
  layout.key_ = HashParts(layout.running_parts_,
                          HashParts(layout.cell_parts_, XXH3_64bits(head, sizeof(head))));
  return layout;
}

double StateLayout::bytes_per_token() const {
  size_t sum = 0;
  for (const Part& part : cell_parts_) sum += part.bytes;
  return static_cast<double>(sum) / page_tokens_;
}

const Part* StateLayout::FindCell(int layer, PartKind kind) const {
  return Find(cell_parts_, layer, kind);
}

const Part* StateLayout::FindRunning(int layer, PartKind kind) const {
  return Find(running_parts_, layer, kind);
}

void StateLayout::ClearCells(std::span<std::byte> page, int first_token) const {
  for (const Part& part : cell_parts_) {
    const size_t run_bytes = part.bytes / part.n_runs;
    const size_t n_items = page_tokens_ / part.tokens_per_item;
    const size_t kept = first_token / part.tokens_per_item * (run_bytes / n_items);
    for (int run = 0; run < part.n_runs; ++run) {
      std::memset(page.data() + part.offset + run * run_bytes + kept, 0, run_bytes - kept);
    }
  }
}

std::string StateLayout::Describe() const {
  return fmt::format(
      "  {} state, KV {}, pages of {} tokens, layout key {:016x}\n"
      "  cells: {:.1f} B per token, page {} B\n{}"
      "  running state: {} B\n{}",
      section_ == StateSection::kTrunk ? "trunk" : "draft", KvFormatName(format_), page_tokens_,
      key_, bytes_per_token(), page_bytes_, DescribeParts(cell_parts_), running_bytes_,
      DescribeParts(running_parts_));
}

}  // namespace holdfast
