#include "weights/synth_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weights/random_rows.h"

namespace holdfast {
namespace {

bool Fits(QuantType type, int64_t n_cols) { return n_cols % InfoOf(type).block_size == 0; }

// The type for rows of `n_cols` when `type` may not fit: one of 32-value blocks with about as many
// bits, as quantising tools choose it.
QuantType Fitting(QuantType type, int64_t n_cols) {
  if (Fits(type, n_cols)) return type;
  QuantType fallback = QuantType::kIQ4_NL;
  if (type == QuantType::kQ4_K || type == QuantType::kQ5_K) fallback = QuantType::kQ5_1;
  if (type == QuantType::kQ6_K || type == QuantType::kQ8_K) fallback = QuantType::kQ8_0;
  return Fits(fallback, n_cols) ? fallback : QuantType::kF16;
}

uint64_t SplitMix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

uint64_t HashName(std::string_view name) {  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

bool IsPrime(int64_t n) {
  if (n < 2) return false;
  for (int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return true;
}

// What a hyper-connection hands to a sub-block and to the output has values of about 1/2: gates
// near 1/2 times normed streams. Matrices that read it make up for that.
constexpr double kReadGain = 2;

// Constants of the n-gram hash, by the released model's rule (qwen4exp, section 7).
struct NgramHash {
  std::vector<uint64_t> multipliers, offsets, sizes;
  int64_t n_rows = 0;  // of the table, padded to 128
};

NgramHash MakeNgramHash(const SynthSpec& spec, int64_t vocab_size) {
  constexpr uint64_t kReleasedSeed = 1234;
  NgramHash hash;
  const uint64_t half_bound = INT64_MAX / static_cast<uint64_t>(vocab_size) / 2;
  for (int i = 0; i < spec.ngram_size; ++i) {
    const uint64_t step = static_cast<uint64_t>(i + 1) * 0x9E3779B97F4A7C15u;
    hash.multipliers.push_back(2 * (SplitMix64(kReleasedSeed + step) % half_bound) + 1);
  }
  int64_t prime = spec.ple_head_rows - 1;
  int64_t offset = 0;
  for (int head = 0; head < (spec.ngram_size - 1) * spec.heads_per_ngram; ++head) {
    do {
      ++prime;
    } while (!IsPrime(prime));
    hash.offsets.push_back(static_cast<uint64_t>(offset));
    hash.sizes.push_back(static_cast<uint64_t>(prime));
    offset += prime;
  }
  hash.n_rows = (offset + 127) / 128 * 128;
  return hash;
}

class SynthWriter {
 public:
  SynthWriter(const SynthSpec& spec, int64_t vocab_size)
      : spec_(spec),
        vocab_size_(vocab_size),
        hidden_(spec.hidden_size),
        wide_(spec.hc_streams * spec.hidden_size),
        hash_(MakeNgramHash(spec, vocab_size)) {}

  Result<GgufWriter> Write(const GgufFile* tokenizer) {
    HF_RETURN_IF_ERROR(WriteMetadata(tokenizer));
    WriteGlobals();
    for (int layer = 0; layer < spec_.n_layers; ++layer) {
      WriteLayer(layer, is_gdn(layer));
      if (spec_.ple && layer == ple_layer()) WritePle(layer);
    }
    if (spec_.mtp) {
      WriteLayer(spec_.n_layers, /*gdn=*/false);
      WriteMtpEntry();
    }
    return std::move(writer_);
  }

 private:
  bool is_gdn(int layer) const { return (layer + 1) % spec_.full_attention_interval != 0; }
  // The released model has it in layer 1; a model of one layer in layer 0.
  int ple_layer() const { return spec_.n_layers > 1 && is_gdn(1) ? 1 : 0; }
  int n_blocks() const { return spec_.n_layers + (spec_.mtp ? 1 : 0); }

  void SetU32(std::string_view name, int64_t value) {
    writer_.SetU32(fmt::format("qwen4exp.{}", name), static_cast<uint32_t>(value));
  }

  Status WriteMetadata(const GgufFile* tokenizer) {
    writer_.SetString("general.architecture", "qwen4exp");
    writer_.SetString("general.type", "model");
    writer_.SetString("general.name",
                      fmt::format("synthetic {}x{}", spec_.n_layers, spec_.n_experts));
    SetU32("block_count", n_blocks());
    SetU32("context_length", spec_.context_length);
    SetU32("embedding_length", hidden_);
    SetU32("attention.head_count", spec_.n_heads);
    SetU32("attention.head_count_kv", spec_.n_kv_heads);
    const int64_t n_pairs = spec_.rope_dims / 2, n_time = (n_pairs + 2) / 3;
    const int64_t n_height = (n_pairs - n_time + 1) / 2;  // 11, 11, 10 of the released 32
    writer_.SetInts("qwen4exp.rope.dimension_sections", GgufType::kI32,
                    std::vector<int64_t>{n_time, n_height, n_pairs - n_time - n_height, 0});
    writer_.SetF32("qwen4exp.rope.freq_base", 1e7f);
    writer_.SetF32("qwen4exp.attention.layer_norm_rms_epsilon", 1e-6f);
    SetU32("expert_count", spec_.n_experts);
    SetU32("expert_used_count", spec_.n_experts_used);
    SetU32("attention.key_length", spec_.head_dim);
    SetU32("attention.value_length", spec_.head_dim);
    SetU32("expert_feed_forward_length", spec_.expert_ffn);
    SetU32("expert_shared_feed_forward_length", spec_.shared_ffn);
    if (spec_.mtp) SetU32("nextn_predict_layers", 1);
    SetU32("ssm.conv_kernel", spec_.gdn_conv_kernel);
    SetU32("ssm.state_size", spec_.gdn_head_dim);
    SetU32("ssm.group_count", spec_.gdn_n_key_heads);
    SetU32("ssm.time_step_rank", spec_.gdn_n_value_heads);
    SetU32("ssm.inner_size", int64_t{spec_.gdn_n_value_heads} * spec_.gdn_head_dim);
    WriteLayerArrays();
    SetU32("full_attention_interval", spec_.full_attention_interval);
    SetU32("rope.dimension_count", spec_.rope_dims);
    SetU32("hyper_connection.count", spec_.hc_streams);
    SetU32("hyper_connection.low_rank", spec_.hc_low_rank);
    SetU32("attention.indexer.head_count", spec_.n_index_heads);
    SetU32("attention.indexer.key_length", spec_.index_dim);
    SetU32("attention.indexer.top_k", spec_.index_budget);
    HF_RETURN_IF_ERROR(WritePleMetadata(tokenizer));
    writer_.SetU32("general.quantization_version", 2);
    if (tokenizer == nullptr) {
      SetU32("vocab_size", vocab_size_);
      writer_.SetString("tokenizer.ggml.model", "none");
      return OkStatus();
    }
    for (const GgufValue& value : tokenizer->values()) {
      if (value.key().starts_with("tokenizer.")) writer_.SetValue(value);
    }
    return OkStatus();
  }

  void WriteLayerArrays() {
    std::vector<int64_t> recurrent, ratios;
    for (int layer = 0; layer < n_blocks(); ++layer) {
      const bool gdn = layer < spec_.n_layers && is_gdn(layer);
      recurrent.push_back(gdn ? 1 : 0);
      ratios.push_back(gdn ? 0 : spec_.block_ratio);
    }
    writer_.SetInts("qwen4exp.attention.recurrent_layers", GgufType::kBool, recurrent);
    writer_.SetInts("qwen4exp.attention.compress_ratios", GgufType::kI32, ratios);
  }

  Status WritePleMetadata(const GgufFile* tokenizer) {
    if (!spec_.ple) return OkStatus();
    constexpr int64_t kReleasedEos = 248044;
    int64_t eos = std::min(kReleasedEos, vocab_size_ - 1);
    if (tokenizer != nullptr) {
      HF_ASSIGN_OR_RETURN(
          eos, tokenizer->GetIntOr("qwen4exp.ple.eos_token_id", 0, vocab_size_ - 1, eos));
    }
    writer_.SetInts("qwen4exp.ple.layers", GgufType::kI32, std::vector<int64_t>{ple_layer()});
    SetU32("ple.ngram_size", spec_.ngram_size);
    SetU32("ple.heads_per_ngram", spec_.heads_per_ngram);
    SetU32("ple.conv_kernel", spec_.ple_conv_kernel);
    SetU32("ple.eos_token_id", eos);
    SetU32("embedding_length_per_layer_input", spec_.ple_row_width);
    writer_.SetUint64s("qwen4exp.ple.layer_multipliers", hash_.multipliers);
    writer_.SetUint64s("qwen4exp.ple.head_offsets", hash_.offsets);
    writer_.SetUint64s("qwen4exp.ple.head_vocab_sizes", hash_.sizes);
    return OkStatus();
  }

  // A tensor of random rows with standard deviation `sigma`.
  void Add(const std::string& name, QuantType type, std::vector<int64_t> ne, double sigma,
           double mean = 0) {
    auto rows =
        std::make_shared<const RandomRows>(type, ne[0], static_cast<float>(sigma),
                                           spec_.seed ^ HashName(name), static_cast<float>(mean));
    writer_.AddTensor(name, type, std::move(ne),
                      [rows](int64_t first_row, int64_t n_rows, std::span<std::byte> out) {
                        rows->Fill(first_row, n_rows, out);
                      });
  }

  // A matrix whose products with rows of unit variance have standard deviation `gain`.
  void AddMatrix(const std::string& name, std::optional<QuantType> type, std::vector<int64_t> ne,
                 double gain = 1) {
    const int64_t n_cols = ne[0];
    Add(name, Fitting(type.has_value() ? *type : NextOfMix(n_cols), n_cols), std::move(ne),
        gain / std::sqrt(static_cast<double>(n_cols)));
  }

  // The type that fits and was used least, so that a mix has them all.
  QuantType NextOfMix(int64_t n_cols) {
    const auto types = AllQuantTypes();
    n_used_.resize(types.size());
    size_t best = 0;  // F32 fits everything
    for (size_t i = 1; i < types.size(); ++i) {
      const bool usable =
          types[i].decodes && types[i].type != QuantType::kQ8_K;  // activations only
      if (usable && Fits(types[i].type, n_cols) && n_used_[i] < n_used_[best]) best = i;
    }
    ++n_used_[best];
    return types[best].type;
  }

  void AddGain(const std::string& name, int64_t n) { Add(name, QuantType::kF32, {n}, 0.1, 1.0); }

  void WriteHc(const std::string& prefix, bool inject) {
    AddGain(prefix + "_norm.weight", wide_);
    // The forward pass divides the products of down and inject by the number of streams.
    AddMatrix(prefix + "_down.weight", spec_.types.small, {wide_, spec_.hc_low_rank},
              spec_.hc_streams);
    AddMatrix(prefix + "_up.weight", spec_.types.small, {spec_.hc_low_rank, wide_});
    if (inject) AddMatrix(prefix + "_inject.weight", spec_.types.small, {wide_, spec_.hc_streams});
  }

  void WriteGlobals() {
    // Logits of the released family have a standard deviation of about 3.
    AddMatrix("output.weight", spec_.types.embd, {hidden_, vocab_size_}, 3 * kReadGain);
    Add("token_embd.weight", Fitting(spec_.types.embd.value_or(QuantType::kQ8_0), hidden_),
        {hidden_, vocab_size_}, 1.0);
    WriteHc("output_hc", false);
    if (!spec_.ple) return;
    Add("per_layer_token_embd.weight",
        Fitting(spec_.types.table.value_or(QuantType::kIQ4_NL), spec_.ple_row_width),
        {spec_.ple_row_width, hash_.n_rows}, 1.0);
  }

  void WriteLayer(int layer, bool gdn) {
    const std::string blk = fmt::format("blk.{}.", layer);
    WriteHc(blk + "hc_attn", true);
    gdn ? WriteGdn(blk) : WriteQsa(blk);
    WriteHc(blk + "hc_ffn", true);
    WriteMoe(blk);
  }

  void WriteGdn(const std::string& blk) {
    const int64_t n_heads = spec_.gdn_n_value_heads, width = n_heads * spec_.gdn_head_dim;
    const int64_t channels = 2 * int64_t{spec_.gdn_n_key_heads} * spec_.gdn_head_dim + width;
    const std::optional<QuantType> dense = spec_.types.dense;
    AddMatrix(blk + "attn_qkv.weight", dense, {hidden_, channels}, kReadGain);
    AddMatrix(blk + "attn_gate.weight", dense, {hidden_, width}, kReadGain);
    AddMatrix(blk + "ssm_beta.weight", spec_.types.small, {hidden_, n_heads}, kReadGain);
    AddMatrix(blk + "ssm_alpha.weight", spec_.types.small, {hidden_, n_heads}, kReadGain);
    // Decays of 0.99 to 0.7 a token: -exp(A_log) near -1, softplus of a small time step.
    Add(blk + "ssm_a", QuantType::kF32, {n_heads}, 0.2, -1.0);
    Add(blk + "ssm_dt.bias", QuantType::kF32, {n_heads}, 0.5, -3.0);
    Add(blk + "ssm_conv1d.weight", QuantType::kF32, {spec_.gdn_conv_kernel, channels}, 0.5);
    AddGain(blk + "ssm_norm.weight", spec_.gdn_head_dim);
    AddMatrix(blk + "ssm_out.weight", dense, {width, hidden_}, 2);
  }

  void WriteQsa(const std::string& blk) {
    const int64_t q_width = int64_t{spec_.n_heads} * spec_.head_dim;
    const int64_t kv_width = int64_t{spec_.n_kv_heads} * spec_.head_dim;
    const std::optional<QuantType> dense = spec_.types.dense;
    AddMatrix(blk + "attn_q.weight", dense, {hidden_, 2 * q_width}, kReadGain);
    AddMatrix(blk + "attn_k.weight", dense, {hidden_, kv_width}, kReadGain);
    AddMatrix(blk + "attn_v.weight", dense, {hidden_, kv_width}, kReadGain);
    AddMatrix(blk + "attn_output.weight", dense, {q_width, hidden_}, 2);
    AddGain(blk + "attn_q_norm.weight", spec_.head_dim);
    AddGain(blk + "attn_k_norm.weight", spec_.head_dim);
    AddMatrix(blk + "indexer.q_proj.weight", spec_.types.small,
              {hidden_, int64_t{spec_.n_index_heads} * spec_.index_dim});
    AddMatrix(blk + "indexer.k_proj.weight", spec_.types.small, {hidden_, spec_.index_dim});
    AddGain(blk + "indexer.q_norm.weight", spec_.index_dim);
    AddGain(blk + "indexer.k_norm.weight", spec_.index_dim);
  }

  void WriteMoe(const std::string& blk) {
    const int64_t n = spec_.n_experts, ffn = spec_.expert_ffn, shared = spec_.shared_ffn;
    const SynthTypes& types = spec_.types;
    Add(blk + "ffn_gate_inp.weight", QuantType::kF32, {hidden_, n},
        kReadGain / std::sqrt(static_cast<double>(hidden_)));
    if (spec_.fused_gate_up) {
      AddMatrix(blk + "ffn_gate_up_exps.weight", types.experts, {hidden_, 2 * ffn, n}, kReadGain);
    } else {
      AddMatrix(blk + "ffn_gate_exps.weight", types.experts, {hidden_, ffn, n}, kReadGain);
      AddMatrix(blk + "ffn_up_exps.weight", types.experts, {hidden_, ffn, n}, kReadGain);
    }
    // silu(gate) * up of two unit normals is about 0.36.
    AddMatrix(blk + "ffn_down_exps.weight", types.down, {ffn, hidden_, n}, 2.5);
    Add(blk + "ffn_gate_inp_shexp.weight", QuantType::kF32, {hidden_},
        kReadGain / std::sqrt(static_cast<double>(hidden_)));
    AddMatrix(blk + "ffn_gate_shexp.weight", types.dense, {hidden_, shared}, kReadGain);
    AddMatrix(blk + "ffn_up_shexp.weight", types.dense, {hidden_, shared}, kReadGain);
    AddMatrix(blk + "ffn_down_shexp.weight", types.dense, {shared, hidden_}, 2.5);
  }

  void WritePle(int layer) {
    const std::string blk = fmt::format("blk.{}.", layer);
    const int64_t width = static_cast<int64_t>(hash_.offsets.size()) * spec_.ple_row_width;
    AddMatrix(blk + "ple_key.weight", spec_.types.dense, {width, wide_});
    AddMatrix(blk + "ple_value.weight", spec_.types.dense, {width, hidden_});
    AddGain(blk + "ple_norm_key.weight", wide_);
    AddGain(blk + "ple_norm_query.weight", wide_);
    AddGain(blk + "ple_norm_conv.weight", wide_);
    Add(blk + "ple_conv1d.weight", QuantType::kF16, {spec_.ple_conv_kernel, wide_}, 0.3);
  }

  void WriteMtpEntry() {
    const std::string nextn = fmt::format("blk.{}.nextn.", spec_.n_layers);
    AddMatrix(nextn + "eh_proj.weight", spec_.types.dense, {2 * hidden_, hidden_});
    AddGain(nextn + "enorm.weight", hidden_);
    AddGain(nextn + "hnorm.weight", wide_);
    WriteHc(nextn + "hc_head", false);
  }

  const SynthSpec& spec_;
  const int64_t vocab_size_;
  const int64_t hidden_;
  const int64_t wide_;
  const NgramHash hash_;
  GgufWriter writer_;
  std::vector<int> n_used_;  // by type, in a mix
};

Result<std::optional<QuantType>> ParseType(std::string_view text) {
  if (text == "mix") return std::optional<QuantType>();
  const QuantTypeInfo* info = FindQuantType(text);
  if (info == nullptr || !info->decodes) {
    return InvalidArgumentError(
        fmt::format("--types: found {}, wanted a tensor type such as Q4_K, or mix", Quoted(text)));
  }
  return std::optional<QuantType>(info->type);
}

}  // namespace

Result<SynthTypes> ParseSynthTypes(std::string_view text) {
  SynthTypes types;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = item.find('=');
    const std::string_view name = equals == std::string_view::npos ? "all" : item.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? item : item.substr(equals + 1);
    HF_ASSIGN_OR_RETURN(const std::optional<QuantType> type, ParseType(value));
    if (name == "all") {
      types = {type, type, type, type, type, type};
    } else if (name == "experts") {
      types.experts = type;
    } else if (name == "down") {
      types.down = type;
    } else if (name == "dense") {
      types.dense = type;
    } else if (name == "small") {
      types.small = type;
    } else if (name == "embd") {
      types.embd = type;
    } else if (name == "table") {
      types.table = type;
    } else {
      return InvalidArgumentError(fmt::format(
          "--types: found {}, wanted experts, down, dense, small, embd or table", Quoted(name)));
    }
  }
  return types;
}

Status SynthSpec::Validate() const {
  struct Range {
    std::string_view name;
    int64_t value, low, high;
  };
  for (const Range& r : {
           Range{"layers", n_layers, 1, 1023},
           Range{"experts", n_experts, 1, 65536},
           Range{"experts used", n_experts_used, 1, n_experts},
           Range{"vocab", vocab_size, 2, 1 << 24},
           Range{"hidden size", hidden_size, 1, 1 << 17},
           Range{"context length", context_length, 1, int64_t{1} << 31},
           Range{"full attention interval", full_attention_interval, 1, 1024},
           Range{"heads", n_heads, 1, 1024},
           Range{"kv heads", n_kv_heads, 1, n_heads},
           Range{"head dim", head_dim, 2, 4096},
           Range{"index heads", n_index_heads, 1, 1024},
           Range{"index dim", index_dim, 2, 4096},
           Range{"rope dims", rope_dims, 2, std::min(head_dim, index_dim)},
           Range{"expert ffn", expert_ffn, 1, 1 << 20},
           Range{"shared ffn", shared_ffn, 1, 1 << 20},
           Range{"n-gram size", ngram_size, 2, 8},
           Range{"heads per n-gram", heads_per_ngram, 1, 32},
           Range{"rows per n-gram head", ple_head_rows, 2, 100000000},
           Range{"n-gram row width", ple_row_width, 1, 1 << 17},
       }) {
    if (r.value >= r.low && r.value <= r.high) continue;
    return InvalidArgumentError(
        fmt::format("{}: found {}, wanted {} to {}", r.name, r.value, r.low, r.high));
  }
  if (ple && full_attention_interval == 1) {
    return InvalidArgumentError("full attention interval: found 1, wanted 2 or more with n-grams");
  }
  return OkStatus();
}

SynthSpec FlashNext8x64() {
  SynthSpec spec;
  spec.n_layers = 8;
  spec.n_experts = 64;
  spec.ple_head_rows = 20000;
  return spec;
}

SynthSpec TinySynth() {
  SynthSpec spec;
  spec.n_layers = 4;
  spec.context_length = 1024;
  spec.vocab_size = 96;
  spec.hidden_size = 64;
  spec.n_heads = 2;
  spec.n_kv_heads = 1;
  spec.head_dim = 32;
  spec.n_index_heads = 2;
  spec.index_dim = 32;
  spec.index_budget = 32;
  spec.rope_dims = 16;
  spec.gdn_n_key_heads = 1;
  spec.gdn_n_value_heads = 2;
  spec.gdn_head_dim = 32;
  spec.hc_low_rank = 32;
  spec.n_experts = 4;
  spec.n_experts_used = 2;
  spec.expert_ffn = 32;
  spec.shared_ffn = 32;
  spec.heads_per_ngram = 1;
  spec.ple_row_width = 32;
  spec.ple_head_rows = 50;
  spec.types = {QuantType::kQ4_0, QuantType::kQ4_0, QuantType::kQ4_0,
                QuantType::kQ4_0, QuantType::kQ4_0, QuantType::kQ4_0};
  return spec;
}

Result<GgufWriter> MakeSynthModel(const SynthSpec& spec, const GgufFile* tokenizer) {
  HF_RETURN_IF_ERROR(spec.Validate());
  int64_t vocab_size = spec.vocab_size;
  if (tokenizer != nullptr) {
    HF_ASSIGN_OR_RETURN(const std::vector<std::string_view> tokens,
                        tokenizer->GetStrings("tokenizer.ggml.tokens"));
    vocab_size = static_cast<int64_t>(tokens.size());
  }
  return SynthWriter(spec, vocab_size).Write(tokenizer);
}

}  // namespace holdfast
