#include "cli/inspect.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/find_model.h"
#include "weights/gguf.h"
#include "weights/model_weights.h"

namespace holdfast::cli {
namespace {

std::string BytesText(uint64_t n) {
  constexpr double kMiB = 1 << 20, kGiB = 1 << 30;
  const auto bytes = static_cast<double>(n);
  if (bytes >= kGiB) return fmt::format("{:.2f} GiB", bytes / kGiB);
  if (bytes >= kMiB) return fmt::format("{:.1f} MiB", bytes / kMiB);
  return fmt::format("{} B", n);
}

// A name from a file, safe to print: escaped, without the quotes.
std::string Plain(std::string_view text) {
  const std::string quoted = Quoted(text);
  return quoted.substr(1, quoted.size() - 2);
}

std::string TypeText(const GgufValue& value) {
  if (!value.is_array()) return GgufTypeName(value.type());
  return fmt::format("{}[{}]", GgufTypeName(value.element_type()), value.count());
}

void PrintFile(const GgufFile& file, std::ostream& out) {
  fmt::print(out, "file {}\n", Plain(file.name()));
  fmt::print(out, "  GGUF version {}, alignment {}, {} in {} part{}\n", file.version(),
             file.alignment(), BytesText(file.file_bytes()), file.n_parts(),
             file.n_parts() == 1 ? "" : "s");
  fmt::print(out, "\nmetadata ({} keys)\n", file.values().size());
  for (const GgufValue& value : file.values()) {
    fmt::print(out, "  {:<44} {:<14} {}\n", Plain(value.key()), TypeText(value), value.ToText());
  }
}

void PrintTensors(const GgufFile& file, bool list, std::ostream& out) {
  struct Sum {
    int n = 0;
    uint64_t bytes = 0;
  };
  std::map<QuantType, Sum> sums;
  uint64_t total = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    Sum& sum = sums[tensor.type];
    ++sum.n;
    sum.bytes += tensor.data.size();
    total += tensor.data.size();
  }
  if (list) {
    fmt::print(out, "\ntensors ({})\n", file.tensors().size());
    for (const GgufTensor& tensor : file.tensors()) {
      fmt::print(out, "  {:<40} {:<8} {:<24} {:>12}", Plain(tensor.name),
                 QuantTypeName(tensor.type), tensor.ShapeText(), BytesText(tensor.data.size()));
      if (file.n_parts() > 1) fmt::print(out, "  part {}", tensor.part + 1);
      fmt::print(out, "\n");
    }
  }
  fmt::print(out, "\nsizes by type\n");
  for (const auto& [type, sum] : sums) {
    fmt::print(out, "  {:<8} {:>5} tensors {:>12} {:>5.1f}%\n", QuantTypeName(type), sum.n,
               BytesText(sum.bytes),
               100.0 * static_cast<double>(sum.bytes) / static_cast<double>(total));
  }
  fmt::print(out, "  {:<8} {:>5} tensors {:>12}\n", "all", file.tensors().size(), BytesText(total));
}

std::string LayerText(const ModelConfig& config) {
  std::string text;
  for (size_t i = 0; i < config.layer_kinds.size(); ++i) {
    if (i == static_cast<size_t>(config.n_layers)) text += " + draft ";
    if (config.layer_kinds[i] == LayerKind::kGdn) {
      text += config.ple.has_value() && config.ple->layer == static_cast<int>(i) ? "N" : "G";
    } else {
      text += config.block_ratio[i] == 0 ? "A" : "S";
    }
  }
  return text;
}

void PrintConfig(const ModelConfig& c, std::ostream& out) {
  fmt::print(out, "\nmodel as understood\n");
  const auto line = [&](std::string_view name, const std::string& value) {
    fmt::print(out, "  {:<22} {}\n", name, value);
  };
  line("name", Plain(c.name));
  line("layers", fmt::format("{}  {}", c.n_layers, LayerText(c)));
  line("", "(G gated delta net, N the same with n-grams, S sparse attention, A dense attention)");
  line("trained context", fmt::format("{} tokens", c.context_length));
  line("hidden size",
       fmt::format("{}, {} streams, low rank {}", c.hidden_size, c.hc_streams, c.hc_low_rank));
  line("vocabulary", fmt::format("{}", c.vocab_size));
  line("attention",
       fmt::format("{} heads, {} KV heads, head dim {}", c.n_heads, c.n_kv_heads, c.head_dim));
  line("indexer", fmt::format("{} heads of {}, budget {} tokens", c.n_index_heads, c.index_dim,
                              c.index_budget));
  line("rope", fmt::format("{} dims, theta {:g}, sections {}", c.rope_dims, c.rope_theta,
                           fmt::join(c.rope_sections, ",")));
  line("gated delta net",
       fmt::format("{} key heads, {} value heads of {}, convolution {}", c.gdn_n_key_heads,
                   c.gdn_n_value_heads, c.gdn_head_dim, c.gdn_conv_kernel));
  line("experts", fmt::format("{}, {} used, width {}; shared width {}", c.n_experts,
                              c.n_experts_used, c.expert_ffn, c.shared_ffn));
  line("rms epsilon", fmt::format("{:g}", c.rms_eps));
  if (c.ple.has_value()) {
    line("n-grams",
         fmt::format("layer {}, up to {} tokens, {} heads of {}, end of text {}", c.ple->layer,
                     c.ple->ngram_size, c.ple->n_heads, c.ple->row_width, c.ple->eos_token_id));
  }
  line("draft head", c.n_mtp_layers > 0 ? "yes" : "none");
}

// What would keep this file from being run, or from being run in full.
std::vector<std::string> Problems(const GgufFile& file, const GgufFile* sidecar,
                                  const Result<ModelConfig>& config) {
  std::vector<std::string> problems;
  if (!config.ok()) {
    problems.push_back("does not load: " + config.status().message());
    return problems;
  }
  const Result<ModelWeights> weights = BindModelWeights(*config, file, sidecar);
  if (!weights.ok()) {
    problems.push_back("does not load: " + weights.status().message());
    return problems;
  }
  std::set<const GgufTensor*> used;
  for (const WeightView& view : AllViews(*weights)) used.insert(view.tensor);
  for (const GgufTensor& tensor : file.tensors()) {
    const std::string_view name = tensor.name;
    if (used.contains(&tensor) || name.ends_with(".scale") || name.ends_with(".input_scale"))
      continue;
    problems.push_back(fmt::format("tensor {} is not used", Quoted(name)));
  }
  const Result<std::string_view> tokenizer = file.GetString("tokenizer.ggml.model");
  if (!tokenizer.ok() || *tokenizer == "none") {
    problems.push_back("no tokenizer: runs on token ids only");
  } else if (file.Find("tokenizer.chat_template") == nullptr) {
    problems.push_back("no chat template: the built-in one is used");
  }
  return problems;
}

}  // namespace

Status RunInspect(const InspectOptions& options, std::ostream& out) {
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(options.model_path));
  std::string mtp_path = options.mtp_path == "off" ? "" : options.mtp_path;
  Status beside;
  if (options.mtp_path.empty()) {
    mtp_path = FindSidecar(options.model_path);
    if (!mtp_path.empty()) beside = CheckSidecar(options.model_path, mtp_path);
  }
  std::unique_ptr<GgufFile> sidecar;
  if (!mtp_path.empty() && beside.ok()) {
    HF_ASSIGN_OR_RETURN(sidecar, GgufFile::Open(mtp_path));
  }
  PrintFile(*file, out);
  PrintTensors(*file, options.list_tensors, out);
  const Result<ModelConfig> config = ReadModelConfig(*file, sidecar.get(), options.config);
  if (config.ok()) {
    PrintConfig(*config, out);
    if (options.describe_state) {
      fmt::print(out, "\nstate of a conversation\n{}", options.describe_state(*config));
    }
  }
  fmt::print(out, "\nwhat would not work\n");
  std::vector<std::string> problems = Problems(*file, sidecar.get(), config);
  if (!beside.ok()) {
    problems.push_back(
        fmt::format("no draft head: {} cannot be used: {}", mtp_path, beside.message()));
  }
  for (const std::string& problem : problems) fmt::print(out, "  {}\n", problem);
  if (problems.empty()) fmt::print(out, "  nothing: the model loads\n");
  return OkStatus();
}

}  // namespace holdfast::cli
