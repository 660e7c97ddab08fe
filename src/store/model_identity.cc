#include "store/model_identity.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <vector>

#include "weights/gguf.h"
#include "weights/model_config.h"

namespace holdfast {
namespace {

// Raised when the same model hashes to something else.
constexpr std::string_view kIdentityVersion = "holdfast model identity 1";
// Hashed between two looks at the cancel flag.
constexpr size_t kHashStep = 8 << 20;

void AddNumber(Hash128Stream* stream, int64_t value) { stream->Add(static_cast<uint64_t>(value)); }
void AddFloat(Hash128Stream* stream, float value) {
  stream->Add(uint64_t{std::bit_cast<uint32_t>(value)});
}
void AddHash(Hash128Stream* stream, const Hash128& hash) {
  stream->Add(hash.low);
  stream->Add(hash.high);
}
void AddNumbers(Hash128Stream* stream, const std::vector<uint64_t>& values) {
  stream->Add(values.size());
  for (const uint64_t value : values) stream->Add(value);
}

// The trunk's part of the configuration as the engine computes with it, so that a draft layer in
// the same file changes nothing.
Hash128 ConfigHash(const ModelConfig& config) {
  Hash128Stream stream;
  stream.Add(kIdentityVersion);
  for (const int64_t value : {int64_t{config.n_layers},
                              config.hidden_size,
                              config.vocab_size,
                              int64_t{config.n_heads},
                              int64_t{config.n_kv_heads},
                              int64_t{config.head_dim},
                              int64_t{config.n_index_heads},
                              int64_t{config.index_dim},
                              config.index_budget,
                              int64_t{config.rope_dims},
                              int64_t{config.gdn_conv_kernel},
                              int64_t{config.gdn_n_key_heads},
                              int64_t{config.gdn_n_value_heads},
                              int64_t{config.gdn_head_dim},
                              int64_t{config.hc_streams},
                              int64_t{config.hc_low_rank},
                              int64_t{config.n_experts},
                              int64_t{config.n_experts_used},
                              config.expert_ffn,
                              config.shared_ffn}) {
    AddNumber(&stream, value);
  }
  AddFloat(&stream, config.rms_eps);
  AddFloat(&stream, config.rope_theta);
  for (const int section : config.rope_sections) AddNumber(&stream, section);
  for (int layer = 0; layer < config.n_layers; ++layer) {
    AddNumber(&stream, static_cast<int64_t>(config.layer_kinds[layer]));
    AddNumber(&stream, config.block_ratio[layer]);
  }
  stream.Add(uint64_t{config.ple.has_value()});
  if (config.ple) {
    const PleConfig& ple = *config.ple;
    for (const int64_t value : {ple.layer, ple.ngram_size, ple.heads_per_ngram, ple.n_heads,
                                ple.row_width, ple.conv_kernel, int{ple.eos_token_id}}) {
      AddNumber(&stream, value);
    }
    AddNumbers(&stream, ple.multipliers);
    AddNumbers(&stream, ple.head_offsets);
    AddNumbers(&stream, ple.head_vocab_sizes);
  }
  return stream.Value();
}

// What turns text into token ids, key by key; the chat template works on text and is left out.
Hash128 VocabularyHash(const GgufFile& trunk) {
  constexpr std::string_view kPrefix = "tokenizer.", kTemplate = "tokenizer.chat_template";
  std::vector<const GgufValue*> values;
  for (const GgufValue& value : trunk.values()) {
    if (value.key().starts_with(kPrefix) && !value.key().starts_with(kTemplate)) {
      values.push_back(&value);
    }
  }
  std::sort(values.begin(), values.end(),
            [](const GgufValue* a, const GgufValue* b) { return a->key() < b->key(); });
  Hash128Stream stream;
  stream.Add(kIdentityVersion);
  for (const GgufValue* value : values) {
    stream.Add(value->key());
    AddNumber(&stream, static_cast<int64_t>(value->type()));
    AddNumber(&stream, static_cast<int64_t>(value->element_type()));
    stream.Add(value->count());
    stream.Add(uint64_t{value->bytes().size()});
    stream.Add(value->bytes());
  }
  return stream.Value();
}

// "blk.12.attn_q.weight" -> 12; -1 for names without a layer.
int LayerOf(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return -1;
  int layer = -1;
  const char* begin = name.data() + kPrefix.size();
  const auto parsed = std::from_chars(begin, name.data() + name.size(), layer);
  return parsed.ec == std::errc() ? layer : -1;
}

std::vector<const GgufTensor*> SortedTensors(const GgufFile& file, int first_layer,
                                             int last_layer) {
  std::vector<const GgufTensor*> tensors;
  for (const GgufTensor& tensor : file.tensors()) {
    const int layer = LayerOf(tensor.name);
    if (layer >= first_layer && layer < last_layer) tensors.push_back(&tensor);
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const GgufTensor* a, const GgufTensor* b) { return a->name < b->name; });
  return tensors;
}

void AddTensorHead(Hash128Stream* stream, const GgufTensor& tensor) {
  stream->Add(std::string_view(tensor.name));
  AddNumber(stream, static_cast<int64_t>(tensor.type));
  AddNumber(stream, tensor.n_dims);
  for (const int64_t n : tensor.ne) AddNumber(stream, n);
  stream->Add(uint64_t{tensor.data.size()});
}

// Equal pieces at equal distances, the first and the last bytes among them.
void AddSamples(Hash128Stream* stream, std::span<const std::byte> data) {
  if (data.size() <= kIdentitySampleBytes) return stream->Add(data);
  constexpr size_t kPiece = kIdentitySampleBytes / kIdentitySamplePieces;
  const size_t last = data.size() - kPiece;
  for (size_t i = 0; i < kIdentitySamplePieces; ++i) {
    // Rounded down to a page so that a piece costs one read of the disk, except the last.
    size_t offset = last / (kIdentitySamplePieces - 1) * i / kPiece * kPiece;
    if (i + 1 == kIdentitySamplePieces) offset = last;
    stream->Add(data.subspan(offset, kPiece));
  }
}

Hash128 SampledHash(const std::vector<const GgufTensor*>& tensors) {
  Hash128Stream stream;
  for (const GgufTensor* tensor : tensors) {
    AddTensorHead(&stream, *tensor);
    AddSamples(&stream, tensor->data);
  }
  return stream.Value();
}

}  // namespace

ModelIdentity ProvisionalIdentity(const GgufFile& trunk, const GgufFile* sidecar,
                                  const ModelConfig& config) {
  constexpr int kNoLimit = 1 << 30;
  ModelIdentity identity;
  identity.name = config.name;
  identity.config = ConfigHash(config);
  identity.vocabulary = VocabularyHash(trunk);
  Hash128Stream stream;
  AddHash(&stream, identity.config);
  AddHash(&stream, identity.vocabulary);
  AddHash(&stream, SampledHash(SortedTensors(trunk, -1, config.n_layers)));
  identity.provisional = stream.Value();
  if (config.n_mtp_layers == 0) return identity;
  const GgufFile& draft = sidecar != nullptr ? *sidecar : trunk;
  identity.draft = SampledHash(SortedTensors(draft, config.n_layers, kNoLimit));
  return identity;
}

Result<Hash128> FullIdentity(const GgufFile& trunk, const ModelConfig& config,
                             const std::atomic<bool>& cancel) {
  Hash128Stream stream;
  AddHash(&stream, ConfigHash(config));
  AddHash(&stream, VocabularyHash(trunk));
  for (const GgufTensor* tensor : SortedTensors(trunk, -1, config.n_layers)) {
    AddTensorHead(&stream, *tensor);
    for (size_t done = 0; done < tensor->data.size(); done += kHashStep) {
      if (cancel.load(std::memory_order_relaxed)) {
        return CancelledError("model identity: stopped before it was complete");
      }
      stream.Add(tensor->data.subspan(done, std::min(kHashStep, tensor->data.size() - done)));
    }
  }
  HF_RETURN_IF_ERROR(trunk.CheckReads());
  return stream.Value();
}

std::string IdentityCacheKey(const GgufFile& trunk, const GgufFile* sidecar) {
  std::string key(kIdentityVersion);
  for (const GgufFile* file : {&trunk, sidecar}) {
    if (file == nullptr) continue;
    key += "|";
    for (int part = 0; part < file->n_parts(); ++part) {
      const MappedFile* mapped = file->part_file(part);
      struct stat info;
      if (mapped == nullptr || ::fstat(mapped->fd(), &info) != 0) return "";
#ifdef __APPLE__
      const timespec modified = info.st_mtimespec;
#else
      const timespec modified = info.st_mtim;
#endif
      key += fmt::format("{}:{}:{}:{}.{:09};", info.st_dev, info.st_ino, info.st_size,
                         modified.tv_sec, modified.tv_nsec);
    }
  }
  return key;
}

}  // namespace holdfast
